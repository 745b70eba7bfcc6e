package ids

import (
	"fmt"
	"slices"
	"strings"
)

// The bounds of one call. A server closes a connection, which all callers share, if an argument is
// above its client-query-buffer-limit. That can be as low as 1 MiB.
const (
	// MaxKeys is the most keys.
	MaxKeys = 1 << 16
	// MaxKeyBytes is the most bytes of a key with its prefix.
	MaxKeyBytes = 64 << 10
	// MaxBytes is the most bytes of all keys together.
	MaxBytes = 4 << 20
)

// Flaw returns what is wrong with the keys of a call behind a prefix, and what to do; "" if nothing
// is. It names keys by their number: they may be long or secret.
func Flaw(keys []string, prefix string, names *ReservedNames) string {
	switch {
	case len(keys) == 0:
		return "no keys: give at least one"
	case len(keys) > MaxKeys:
		return fmt.Sprintf("%d keys in one call: give at most %d", len(keys), MaxKeys)
	}
	bytes := 0
	for i, k := range keys {
		flaw, name := "", names.In(k)
		bytes += len(prefix) + len(k)
		switch {
		case k == "":
			flaw = " is empty: give a name"
		case strings.HasPrefix(k, Reserved):
			flaw = fmt.Sprintf(", %.64q, begins with %q, as the Client's own keys do: name it "+
				"otherwise", k, Reserved)
		case name != "":
			flaw = fmt.Sprintf(", behind Config.Prefix %.64q, has %q in its name, which clients keep "+
				"for themselves: name it otherwise", prefix, name)
		case len(prefix)+len(k) > MaxKeyBytes:
			flaw = fmt.Sprintf(" has %d bytes: give at most %d, with Config.Prefix, such as a hash "+
				"of it", len(k), MaxKeyBytes)
		case bytes > MaxBytes:
			return fmt.Sprintf("%d keys have more than %d bytes together, each with Config.Prefix: "+
				"give shorter or fewer ones", len(keys), MaxBytes)
		}
		if flaw != "" {
			return fmt.Sprintf("key %d of %d%s", i+1, len(keys), flaw)
		}
	}
	return ""
}

// Distinct returns keys without repetitions, in order.
func Distinct(keys []string) []string {
	if len(keys) == 1 {
		return keys
	}
	seen := make(map[string]bool, len(keys))
	return slices.DeleteFunc(slices.Clone(keys), func(k string) (twice bool) {
		twice, seen[k] = seen[k], true
		return twice
	})
}

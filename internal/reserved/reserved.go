// Package reserved has the names of the keys that clients use and that are no lock.
package reserved

import "strings"

// Own is the beginning, behind a Prefix, of the names that clients use for keys that are no
// lock.
const Own = "lockpipe:"

// These names, behind a Prefix, are all that clients use for keys that are no lock.
const (
	// Admitted is the restart guard's key. It says that the server votes, or that it waits: see
	// package guard.
	Admitted = Own + "admitted"
	// Probe, in front of random characters, is a key that is not there. With it the
	// handshake finds out what the user may do. The key is there for a moment when the client
	// probes a node.
	Probe = Own + "none:"
	// Fence, in front of a key, is its fence key. That has the highest fence of the key.
	Fence = Own + "fence:"
	// Layouts has the layouts that clients use: see script.Layouts.
	Layouts = Own + "layouts"
)

var all = [...]string{Admitted, Probe, Fence, Layouts}

// Names finds these names in the full names of locks. A client with another Prefix may use such
// a key: "app:lockpipe:fence:sku" is the fence key of "sku" behind the Prefix "app:".
type Names struct {
	begun []begunName // the names that begin in the Prefix and end behind it; usually none
}

// begunName is a name of which the Prefix has the beginning.
type begunName struct{ name, rest string }

// New returns the Names for keys behind prefix.
func New(prefix string) Names {
	var r Names
	for _, name := range all {
		for i := 1; i < len(name); i++ {
			if strings.HasSuffix(prefix, name[:i]) {
				r.begun = append(r.begun, begunName{name, name[i:]})
			}
		}
	}
	return r
}

// Flaw returns what is wrong with a Prefix, and what to do; "" if nothing is.
func Flaw(prefix string) string {
	if strings.HasPrefix(prefix, Own) {
		return `"` + Own + `" is the Client's own: give one that begins otherwise`
	}
	if name := new(Names).In(prefix); name != "" {
		return `clients keep "` + name + `" for themselves: give one without it`
	}
	return ""
}

// In returns a reserved name that Prefix and key have together, and the Prefix alone does not have.
// It returns "" if there is none.
func (r *Names) In(key string) string {
	if strings.Contains(key, Own) {
		for _, name := range all {
			if strings.Contains(key, name) {
				return name
			}
		}
	}
	for _, b := range r.begun {
		if strings.HasPrefix(key, b.rest) {
			return b.name
		}
	}
	return ""
}

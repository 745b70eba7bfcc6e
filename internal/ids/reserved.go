package ids

import (
	"strconv"
	"strings"
)

// Reserved is the beginning, behind a Prefix, of the names that clients use for keys that are no
// lock.
const Reserved = "lockpipe:"

// These names, behind a Prefix, are all that clients use for keys that are no lock.
const (
	// AdmittedKey is the restart guard's key. It says that the server votes, or that it waits: see
	// package guard.
	AdmittedKey = Reserved + "admitted"
	// ProbeKey, in front of random characters, is a key that is not there. With it the
	// handshake finds out what the user may do. The key is there for a moment when the client
	// probes a node.
	ProbeKey = Reserved + "none:"
	// FencesKey is the sorted set of the highest fences that a node knows: see Fence.
	FencesKey = Reserved + "fences"
	// LayoutsKey has the layouts that clients use: see script.Layouts.
	LayoutsKey = Reserved + "layouts"
	// LineKey, in front of a lock's key, is the line of the clients that wait for it: see
	// script.Line.
	LineKey = Reserved + "line:"
	// TurnKey, in front of a ticket, a colon and a lock's key, is there for a moment when the
	// ticket has left the line: see script.Leave.
	TurnKey = Reserved + "turn:"
)

var reservedNames = [...]string{
	AdmittedKey, ProbeKey, FencesKey, LayoutsKey, LineKey, TurnKey,
}

// TurnOf returns the key, behind the prefix, that is there when a ticket has left the line for a
// lock's key.
func TurnOf(key string, ticket int64) string {
	return TurnKey + strconv.FormatInt(ticket, 10) + ":" + key
}

// ReservedNames finds these names in the full names of locks. A client with another Prefix may use
// such a key: "app:lockpipe:fences" has the fences of all keys behind the Prefix "app:".
type ReservedNames struct {
	begun string // the end of the Prefix with which such a name may begin; usually ""
}

// NewReservedNames returns the ReservedNames for keys behind prefix.
func NewReservedNames(prefix string) (r ReservedNames) {
	for _, name := range reservedNames {
		for i := len(r.begun) + 1; i < len(name); i++ {
			if strings.HasSuffix(prefix, name[:i]) {
				r.begun = name[:i]
			}
		}
	}
	return r
}

// PrefixFlaw returns what is wrong with a Prefix, and what to do; "" if nothing is.
func PrefixFlaw(prefix string) string {
	if strings.HasPrefix(prefix, Reserved) {
		return `"` + Reserved + `" is the Client's own: give one that begins otherwise`
	}
	if name := new(ReservedNames).In(prefix); name != "" {
		return `clients keep "` + name + `" for themselves: give one without it`
	}
	return ""
}

// In returns a reserved name that Prefix and key have together, and the Prefix alone does not have.
// It returns "" if there is none.
func (r *ReservedNames) In(key string) string {
	if key = r.begun + key; strings.Contains(key, Reserved) {
		for _, name := range reservedNames {
			if strings.Contains(key, name) {
				return name
			}
		}
	}
	return ""
}

// Package reserved has the names of the keys that clients use and that are no lock.
package reserved

import "strings"

// Own is the beginning, behind a Prefix, of the names that clients use for keys that are no
// lock.
const Own = "lockpipe:"

// These names, behind a Prefix, are all that clients use for keys that are no lock.
const (
	// Marker is the admission marker. Its value is the run_id of the server that was admitted
	// last, or a loss record of the restart guard. It does not expire in the
	// first case.
	Marker = Own + "admitted"
	// Probe, in front of random characters, is a key that is not there. With it the
	// handshake finds out what the user may do. The key is there for a moment when the client
	// probes a node, or has to find out whether two servers are one.
	Probe = Own + "none:"
	// Fence, in front of a key, is its fence key. That has the highest fence of the key.
	Fence = Own + "fence:"
	// Generations has the generation of a node, and what the node keeps of others: see
	// script.Renew.
	Generations = Own + "generations"
	// Layouts has the layouts that clients use: see script.Layouts.
	Layouts = Own + "layouts"
)

var all = [...]string{Marker, Probe, Fence, Generations, Layouts}

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

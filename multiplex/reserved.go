package multiplex

import "strings"

// OwnNames is the beginning, behind a Prefix, of the names that clients use for keys that are no
// lock.
const OwnNames = "lockpipe:"

// These names, behind a Prefix, are all that clients use for keys that are no lock. reservedNames
// has each of them.
const (
	// markerKey is the admission marker. Its value is the run_id of the server that was admitted
	// last, or a loss record of the restart guard. It does not expire in the
	// first case.
	markerKey = OwnNames + "admitted"
	// probeKey, in front of random characters, is a key that is not there. With it the
	// handshake finds out what the user may do. The key is there for a moment when the client
	// probes a node, or has to find out whether two servers are one.
	probeKey = OwnNames + "none:"
	// fenceKeyPrefix, in front of a key, is its fence key. That has the highest fence of the key.
	fenceKeyPrefix = OwnNames + "fence:"
	// generationsKey has the generation of a node, and what the node keeps of others: see
	// script.Renew.
	generationsKey = OwnNames + "generations"
)

var reservedNames = [...]string{markerKey, probeKey, fenceKeyPrefix, generationsKey}

// Reserved finds these names in the full names of locks. A client with another Prefix may use such
// a key: "app:lockpipe:fence:sku" is the fence key of "sku" behind the Prefix "app:".
type Reserved struct {
	begun []begunName // the names that begin in the Prefix and end behind it; usually none
}

// begunName is a name of which the Prefix has the beginning.
type begunName struct{ name, rest string }

// NewReserved returns a Reserved for keys behind prefix.
func NewReserved(prefix string) Reserved {
	var r Reserved
	for _, name := range reservedNames {
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
func (r *Reserved) In(key string) string {
	if strings.Contains(key, OwnNames) {
		for _, name := range reservedNames {
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

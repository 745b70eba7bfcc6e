package multiplex

import "strings"

// OwnNames is how the names, behind a Prefix, begin that clients use for what is no lock.
const OwnNames = "lockpipe:"

// These names, behind a Prefix, are all that clients use for what is no lock. reservedNames has
// each of them.
const (
	// markerKey is the admission marker. Its value is the run_id of the server that was admitted
	// last, or it begins with lostPrefix. It does not expire in the first case.
	markerKey = OwnNames + "admitted"
	// noneKey, in front of random characters, is not there. With it the handshake finds out what
	// the user may do. It is there for a moment if servers can't be told apart otherwise.
	probeKeyPrefix = OwnNames + "none:"
	// companionKey, in front of a key, has the highest fence of that key.
	fenceKeyPrefix = OwnNames + "fence:"
	// generationsKey has the generation of a node, and what the node keeps of others: see
	// script.Renew.
	generationsKey = OwnNames + "generations"
)

var reservedNames = [...]string{markerKey, probeKeyPrefix, fenceKeyPrefix, generationsKey}

// Reserved finds these names in the full names of locks. A client with another Prefix may use such
// a key: "app:lockpipe:fence:sku" is the companion of "sku" behind the Prefix "app:".
type Reserved struct {
	begun []begunName // the names that the Prefix ends in the middle of; usually none
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

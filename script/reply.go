package script

import "fmt"

// Refusal is one set that a node did not grant.
type Refusal struct {
	// Set is the set's index in its call, from 0.
	Set int
	// Key is the index in the set of a key that another token holds, from 0. It is Refilled if
	// Extend found keys missing, and none that another token holds. Adopt says the same of missing
	// keys.
	Key int
}

// Refilled is the Refusal.Key of a set that Extend set again: the node has it now, but it does not
// count as granted.
const Refilled = -1

// Decode reads the reply of Acquire or Extend to the call c: a list, or the number of all sets. It
// returns the sets that were refused; the others were granted. After an error the outcome of the
// whole call is unknown.
func Decode(reply []int64, c *Call) (refusals []Refusal, err error) {
	sets := int64(len(c.Owners))
	if len(reply)%2 == 0 || reply[0]+int64(len(reply)/2) != sets {
		return nil, fmt.Errorf("script replied with %d numbers for %d sets", len(reply), sets)
	}
	last := int64(0)
	for ; len(reply) > 1; reply = reply[2:] {
		set, key := reply[1], reply[2]
		if set <= last || set > sets || key < 0 || key > int64(c.Sizes[set-1]) {
			return nil, fmt.Errorf("script named key %d of set %d of %d", key, set, sets)
		}
		last = set
		refusals = append(refusals, Refusal{Set: int(set) - 1, Key: int(key) - 1})
	}
	return refusals, nil
}

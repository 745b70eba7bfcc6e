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

// DecodeCount checks the reply of Acquire or Extend to a call of that many sets, if the reply was a
// number: then all sets were granted. Any other number is an error, and the outcome of the whole
// call is unknown.
func DecodeCount(reply int64, sets int) error {
	if reply != int64(sets) {
		return fmt.Errorf("script granted %d sets of %d without naming the rest", reply, sets)
	}
	return nil
}

// DecodeList reads the reply of Acquire or Extend to the call c, if the reply was a list. It
// appends the sets that were refused to refusals; the others were granted. After an error the
// outcome of the whole call is unknown.
func DecodeList(refusals []Refusal, reply []int64, c *Call) ([]Refusal, error) {
	sets := len(c.Owners)
	if len(reply)%2 == 0 || int(reply[0])+len(reply)/2 != sets {
		return refusals, fmt.Errorf("script replied with %d numbers for %d sets", len(reply), sets)
	}
	last := int64(0)
	for ; len(reply) > 1; reply = reply[2:] {
		set, key := reply[1], reply[2]
		if set <= last || set > int64(sets) || key < 0 || key > int64(c.Sizes[set-1]) {
			return refusals, fmt.Errorf("script named key %d of set %d of %d", key, set, sets)
		}
		last = set
		refusals = append(refusals, Refusal{Set: int(set) - 1, Key: int(key) - 1})
	}
	return refusals, nil
}

package script

import "fmt"

// Refusal is one set that a node did not grant.
type Refusal struct {
	// Set is the set's place in its call, from 0.
	Set int
	// Key is the place in the set of a key that another token holds, from 0; Refilled where Extend
	// found keys missing and none of another's.
	Key int
	// Seen is the highest number of the set's companions, where AcquireFenced found none of the
	// keys held but this number not below the fence; else 0. Key means nothing then.
	Seen int64
}

// MaxFence is the highest fence: up to it the numbers of Lua count in ones.
const MaxFence = 1<<53 - 1

// Refilled is the Refusal.Key of a set that Extend set again: it is ours on that node now, but it
// does not count.
const Refilled = -1

// DecodeCount checks the reply of Acquire or Extend to a call of that many sets, where the reply
// was a number: then all of them were granted. Any other number is an error, and the outcome of the
// whole call is unknown.
func DecodeCount(reply int64, sets int) error {
	if reply != int64(sets) {
		return fmt.Errorf("script granted %d sets of %d without naming the rest", reply, sets)
	}
	return nil
}

// DecodeList reads the reply of Acquire, AcquireFenced or Extend to the call c, where the reply was
// a list, and appends the sets that were refused to refusals; the others were granted. An error
// means that the outcome of the whole call is unknown.
func DecodeList(refusals []Refusal, reply []int64, c *Call) ([]Refusal, error) {
	sets := len(c.Owners)
	if len(reply)%2 == 0 || int(reply[0])+len(reply)/2 != sets {
		return refusals, fmt.Errorf("script replied with %d numbers for %d sets", len(reply), sets)
	}
	last := int64(0)
	for ; len(reply) > 1; reply = reply[2:] {
		set, key := reply[1], reply[2]
		if set <= last || set > int64(sets) || key < c.least() || key > int64(c.Sizes[set-1]) {
			return refusals, fmt.Errorf("script named key %d of set %d of %d", key, set, sets)
		}
		last = set
		if key < 0 {
			refusals = append(refusals, Refusal{Set: int(set) - 1, Seen: -key})
			continue
		}
		refusals = append(refusals, Refusal{Set: int(set) - 1, Key: int(key) - 1})
	}
	return refusals, nil
}

// least is the lowest number that can stand for a key: below 0 it is what companions have.
func (c *Call) least() int64 {
	if c.script == AcquireFenced {
		return -MaxFence
	}
	return 0
}

package memorynode

import (
	"math"
	"strconv"
)

const (
	// fenceKeyTTL is how long a node keeps a fence, in milliseconds.
	fenceKeyTTL = 24 * 60 * 60 * 1000
	maxFence    = 1<<53 - 1
)

// fencedKeySet is one set of keys of a call of acquire_fenced.
type fencedKeySet struct {
	keySet
	fenceKeys   []string
	first, last string
}

func fencedKeySets(keys, args []string) (all []fencedKeySet) {
	shared := args[0] != ""
	keys, fenceKeys := keys[:len(keys)/2], keys[len(keys)/2:]
	for rest := args[1:]; len(rest) > 0; {
		count, ttl := 1, args[0]
		if !shared {
			count, _ = strconv.Atoi(rest[0])
			ttl, rest = rest[1], rest[2:]
		}
		l := fencedKeySet{
			keySet:    keySet{keys: keys[:count], value: rest[0]},
			fenceKeys: fenceKeys[:count], first: rest[1], last: rest[1],
		}
		l.ttl, _ = strconv.ParseInt(ttl, 10, 64)
		if rest = rest[2:]; !shared {
			l.last, rest = rest[0], rest[1:]
		}
		all = append(all, l)
		keys, fenceKeys = keys[count:], fenceKeys[count:]
	}
	return all
}

// storedFence returns the fence in a fence key, 0 if there is none. ok is false if it is no number.
func (n *Node) storedFence(fenceKey string) (number float64, ok bool) {
	value, there := n.getString(fenceKey)
	if !there {
		return 0, true
	}
	number, err := strconv.ParseFloat(value, 64) // as Lua reads it
	return number, err == nil && !math.IsNaN(number)
}

// refusal returns what the reply says of a set that is not granted: the number of a key, or the
// highest fence times -1. It returns 0 for a set that is granted.
func (n *Node) refusal(l fencedKeySet) int64 {
	for k, key := range l.keys {
		if _, ok := n.get(key); ok {
			return int64(k + 1)
		}
	}
	first, _ := strconv.ParseFloat(l.first, 64)
	refusedKey, highest := 0, float64(0)
	for k, fenceKey := range l.fenceKeys {
		number, ok := n.storedFence(fenceKey)
		switch {
		case !ok:
			refusedKey = k + 1
		case number >= first:
			highest = max(highest, number)
		}
	}
	if refusedKey > 0 {
		return int64(refusedKey)
	}
	return -int64(min(highest, maxFence))
}

func acquireFencedModel(n *Node, keys, args []string) []int64 {
	v := scriptReply{}
	for i, l := range fencedKeySets(keys, args) {
		if o := n.refusal(l); o != 0 {
			v.addRefusal(i, int(o))
			continue
		}
		for k, key := range l.keys {
			n.set(key, l.value, l.ttl)
			n.set(l.fenceKeys[k], l.last, fenceKeyTTL)
		}
		v.granted++
	}
	return v.values()
}

func raiseFenceModel(n *Node, keys, args []string) []int64 {
	raised := int64(0)
	for _, l := range keySets(keys, args, 2) {
		lowest, _ := strconv.ParseFloat(l.value, 64) // of this script it is a fence
		for _, fenceKey := range l.keys {
			if number, ok := n.storedFence(fenceKey); ok && number < lowest {
				n.set(fenceKey, l.value, fenceKeyTTL)
				raised++
			}
		}
	}
	return []int64{raised}
}

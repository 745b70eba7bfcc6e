package sim

import (
	"math"
	"strconv"
)

const (
	// companionLife is how long a node remembers a fence, in milliseconds.
	companionLife = 24 * 60 * 60 * 1000
	maxFence      = 1<<53 - 1
)

// fencedLot is one set of keys of a call of acquire_fenced.
type fencedLot struct {
	lot
	companions  []string
	first, last string
}

func fencedLots(keys, args []string) (all []fencedLot) {
	shared := args[0] != ""
	for rest := args[1:]; len(rest) > 0; rest = rest[3:] {
		count, ttl := 1, args[0]
		if !shared {
			count, _ = strconv.Atoi(rest[0])
			ttl, rest = rest[1], rest[2:]
		}
		l := fencedLot{
			lot:        lot{keys: keys[:count], token: rest[0]},
			companions: keys[count : 2*count], first: rest[1], last: rest[2],
		}
		l.ttl, _ = strconv.ParseInt(ttl, 10, 64)
		all = append(all, l)
		keys = keys[2*count:]
	}
	return all
}

// fence returns what a companion has, 0 where it is not there. false: it is no number.
func (n *node) fence(companion string) (number float64, ok bool) {
	value, there := n.get(companion)
	if !there {
		return 0, true
	}
	number, err := strconv.ParseFloat(value, 64) // as Lua reads it
	return number, err == nil && !math.IsNaN(number)
}

// obstacle is what the reply says of a set that is not granted: the place of a key, or below 0 the
// highest fence; else 0.
func (n *node) obstacle(l fencedLot) int64 {
	for k, key := range l.keys {
		if _, ok := n.get(key); ok {
			return int64(k + 1)
		}
	}
	first, _ := strconv.ParseFloat(l.first, 64)
	place, highest := 0, float64(0)
	for k, companion := range l.companions {
		number, ok := n.fence(companion)
		switch {
		case !ok:
			place = k + 1
		case number >= first:
			highest = max(highest, number)
		}
	}
	if place > 0 {
		return int64(place)
	}
	return -int64(min(highest, maxFence))
}

func acquireFencedTwin(n *node, keys, args []string) []int64 {
	v := verdict{}
	for i, l := range fencedLots(keys, args) {
		if o := n.obstacle(l); o != 0 {
			v.refuse(i, int(o))
			continue
		}
		for k, key := range l.keys {
			n.set(key, l.token, l.ttl)
			n.set(l.companions[k], l.last, companionLife)
		}
		v.granted++
	}
	return v.reply()
}

func raiseFenceTwin(n *node, keys, args []string) []int64 {
	raised := int64(0)
	for _, l := range lots(keys, args, 2) {
		least, _ := strconv.ParseFloat(l.token, 64) // here it is a number
		for _, companion := range l.keys {
			if number, ok := n.fence(companion); ok && number < least {
				n.set(companion, l.token, companionLife)
				raised++
			}
		}
	}
	return []int64{raised}
}

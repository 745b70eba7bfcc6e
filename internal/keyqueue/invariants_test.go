package keyqueue

import (
	"fmt"
	"slices"
)

// broken says what does not hold between any two operations; empty: nothing. calls are those that
// are not outside.
func broken(q *Queue, calls []*Call) string {
	entries := 0
	for _, k := range q.keys {
		n, why := k.brokenList()
		entries += n
		if why == "" {
			why = k.brokenOwners()
		}
		if why == "" {
			why = k.brokenHeap()
		}
		if why != "" {
			return "key " + k.name + ": " + why
		}
	}
	for _, c := range calls {
		if !c.granted {
			entries -= len(c.entries)
		}
		if why := c.broken(); why != "" {
			return fmt.Sprintf("call %d: %s", c.arrival, why)
		}
	}
	switch {
	case entries != 0:
		return "a queue has entries of calls that are outside, or too few"
	case int64(len(q.keys)) != q.known.Load():
		return "the number of keys is wrong"
	}
	return ""
}

func (c *Call) broken() string {
	switch {
	case c.state == outside:
		return "it is outside"
	case (c.state == waiting) != (c.parkedAt != nil):
		return "exactly waiting calls are parked"
	case c.state == waiting && c.blockedBy() == nil:
		return "it could run"
	}
	for i := range c.entries {
		if (c.state == running) != (c.entries[i].key.owner == c) {
			return "exactly running calls own their keys"
		}
	}
	return ""
}

// brokenList returns the number of entries too.
func (k *key) brokenList() (entries int, why string) {
	var last *entry
	for e := k.first; e != nil; last, e = e, e.next {
		switch {
		case e.key != k || e.prev != last:
			return 0, "its list is not linked in both directions"
		case last != nil && last.call.arrival >= e.call.arrival:
			return 0, "its list is not in the order of arrival"
		case e.call.granted:
			return 0, "a holder is in its list"
		}
		entries++
	}
	if k.last != last {
		return 0, "the end of its list is wrong"
	}
	return entries, ""
}

func (k *key) brokenOwners() string {
	switch {
	case k.owner == nil && k.first == nil:
		return "nobody wants it"
	case k.owner != nil && k.contender != nil:
		return "this process and another one have it"
	case k.owner != nil && k.reserver != nil:
		return "it is held and reserved"
	case k.reserver != nil && k.reserver.state != waiting && k.reserver.state != contending:
		return "a call that does not wait reserves it"
	case k.reserver != nil && k.reserver.state == contending && !k.reserver.contendsAbove(k.name):
		return "a call that contends for a smaller key reserves it"
	case k.contender != nil && k.contender.state != contending:
		return "a call that does not contend has it"
	case k.contender != nil && !k.foreign:
		return "a call contends for what no other process has"
	case len(k.overtakers) > maxOvertaken || !slices.IsSorted(k.overtakers):
		return "its overtakers are wrong"
	}
	return ""
}

// contendsAbove reports whether c contends for a key with a larger name.
func (c *Call) contendsAbove(name string) bool {
	return slices.ContainsFunc(c.entries, func(e entry) bool {
		return e.key.contender == c && e.key.name > name
	})
}

func (k *key) brokenHeap() string {
	for i, c := range k.parked {
		switch {
		case c.parkedAt != k || c.parkIndex != i || c.state != waiting:
			return "another call is parked at it"
		case i > 0 && k.parked[(i-1)/2].arrival >= c.arrival:
			return "its parked calls are no heap"
		case k.availableTo(c):
			return "a call is parked at it that could have it"
		}
	}
	return ""
}

// overtakenCount returns how many calls that arrived after this arrival overtook others at k, as
// far as k knows.
func (k *key) overtakenCount(arrival uint64) (n int) {
	for _, overtaker := range k.overtakers {
		if overtaker > arrival {
			n++
		}
	}
	return n
}

// fasterOvertaking is how often an overtaking counts in the tests that can't wait for maxOvertaken.
const fasterOvertaking = maxOvertaken / 2

// refuseFaster counts fasterOvertaking times that c, which contends, was refused.
func refuseFaster(c *Call) { c.refused = min(c.refused+fasterOvertaking-1, maxOvertaken) }

// overtakeFaster counts fasterOvertaking times that c, which was granted its keys, overtook others.
func overtakeFaster(c *Call) {
	for i := range c.entries {
		k := c.entries[i].key
		if at, found := slices.BinarySearch(k.overtakers, c.arrival); found {
			copies := slices.Repeat([]uint64{c.arrival}, fasterOvertaking-1)
			k.overtakers = slices.Insert(k.overtakers, at, copies...)
			k.overtakers = k.overtakers[max(0, len(k.overtakers)-maxOvertaken):]
		}
	}
}

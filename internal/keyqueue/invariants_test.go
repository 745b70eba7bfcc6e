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
		why := k.brokenQueue()
		entries += len(k.queue)
		if why == "" {
			why = k.brokenOwners()
		}
		if why == "" {
			why = k.brokenParked()
		}
		if why != "" {
			return "key " + k.name + ": " + why
		}
	}
	for _, c := range calls {
		if !c.granted {
			entries -= len(c.keys)
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
	for _, k := range c.keys {
		if (c.state == running) != (k.owner == c) {
			return "exactly running calls own their keys"
		}
	}
	return ""
}

func (k *key) brokenQueue() string {
	for i, c := range k.queue {
		switch {
		case !slices.Contains(c.keys, k):
			return "a call is in its queue that does not want it"
		case i > 0 && k.queue[i-1].arrival >= c.arrival:
			return "its queue is not in the order of arrival"
		case c.granted:
			return "a holder is in its queue"
		}
	}
	return ""
}

func (k *key) brokenOwners() string {
	switch {
	case k.owner == nil && len(k.queue) == 0:
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
	return slices.ContainsFunc(c.keys, func(k *key) bool {
		return k.contender == c && k.name > name
	})
}

func (k *key) brokenParked() string {
	for i, c := range k.parked {
		switch {
		case c.parkedAt != k || c.state != waiting:
			return "another call is parked at it"
		case i > 0 && k.parked[i-1].arrival >= c.arrival:
			return "its parked calls are not in the order of arrival"
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
	for _, k := range c.keys {
		if at, found := slices.BinarySearch(k.overtakers, c.arrival); found {
			copies := slices.Repeat([]uint64{c.arrival}, fasterOvertaking-1)
			k.overtakers = slices.Insert(k.overtakers, at, copies...)
			k.overtakers = k.overtakers[max(0, len(k.overtakers)-maxOvertaken):]
		}
	}
}

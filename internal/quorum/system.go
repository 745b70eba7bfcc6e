package quorum

import (
	"math"
	"slices"
)

// MaxSystems is the most quorum systems that there can be.
const MaxSystems = 256

// System is a quorum system: the sets of nodes in each of which a claim needs a quorum, mostly one.
// Two claims exclude each other if their systems share a set: both need a quorum of it. So while a
// fleet moves from one set of nodes to another, its clients need both in between. The zero value
// never grants.
type System struct {
	nodes Nodes    // of all sets
	sets  []Nodes  // they differ
	known *Aliases // see CountOnce; nil: each node counts
}

// NewSystem returns the system with these sets.
func NewSystem(sets ...Nodes) System {
	q := System{sets: Distinct(sets)}
	for _, set := range q.sets {
		q.nodes |= set
	}
	return q
}

// Distinct returns each set of these systems once, in their order.
func Distinct(systems ...[]Nodes) (sets []Nodes) {
	for _, system := range systems {
		for _, set := range system {
			if !slices.Contains(sets, set) {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// Nodes returns the nodes of all sets.
func (q *System) Nodes() Nodes { return q.nodes }

// Sets returns all sets.
func (q *System) Sets() []Nodes { return q.sets }

// together decides by all sets.
func (q *System) together(votesIn func(set Nodes) prospects) Decision {
	if len(q.sets) == 0 {
		return NoQuorum
	}
	all := votesIn(q.sets[0])
	for _, set := range q.sets[1:] {
		all = all.with(votesIn(set))
	}
	return all.decision()
}

// CountOnce has one grant counted of those of slots of a Redis Cluster that are on one server.
func (q System) CountOnce(known *Aliases) System {
	q.known = known
	return q
}

// OnePerServer returns these nodes without those whose server has another of them in the same set,
// with a lower index: see CountOnce.
func (q *System) OnePerServer(nodes Nodes) Nodes {
	if q.known == nil || q.known.Slots() == nil {
		return nodes
	}
	slots := q.known.Slots()
	for _, set := range q.sets {
		for s := nodes & set; s != 0; s &= s - 1 {
			if i := s.Lowest(); slots.Others(i)&nodes&set&(Node(i)-1) != 0 {
				nodes &^= Node(i)
			}
		}
	}
	return nodes
}

// Acquire decides an acquire.
func (q *System) Acquire(granted, refused, unknown Nodes) Decision {
	once := q.OnePerServer(granted)
	granted, unknown = once, unknown|granted&^once
	return q.together(func(set Nodes) prospects {
		return acquire(set, granted, refused, unknown)
	})
}

// Extension decides an extension. lostKeys are the nodes that had lost the keys when an earlier one
// came that was not confirmed. If a quorum of one set may be without the keys, a client that needs
// no other set can have had them, and the lease is lost.
func (q *System) Extension(granted, refused, lostKeys, unknown Nodes) Decision {
	once := q.OnePerServer(granted)
	granted, unknown = once, unknown|granted&^once
	return q.together(func(set Nodes) prospects {
		return extension(set, granted, refused, lostKeys, unknown)
	})
}

// Release decides a release. neverHeld are nodes that never had the token, and were not asked. A
// node that deleted had the token, and one that is gone had lost it. If the others can't be a
// quorum, another client may have held the keys: Held.
func (q *System) Release(neverHeld, deleted, gone, unknown Nodes) Decision {
	d := q.together(func(set Nodes) prospects {
		return release(set, neverHeld, deleted|gone, unknown)
	})
	if d != Won || gone == 0 || q.margin(deleted) >= 0 {
		return d
	}
	switch had := q.Nodes() &^ (gone | neverHeld); {
	case q.margin(had) < 0:
		return Held
	case had&^(deleted|unknown) != 0:
		return Undecided // they say whether they had it
	}
	return Won
}

// BlocksOtherQuorum reports whether these nodes, which had the keys all the time, are so many that
// no quorum of any set can have been without them.
func (q *System) BlocksOtherQuorum(kept Nodes) bool {
	for _, set := range q.sets {
		if n := set.Count(); (kept & set).Count() <= n-Need(n) {
			return false
		}
	}
	return true
}

// Margin returns how many votes of these nodes are more than a quorum, in the set where they are
// fewest. Below 0 they are no quorum of it.
func (q *System) Margin(nodes Nodes) int { return q.margin(q.OnePerServer(nodes)) }

// margin is Margin if each node counts.
func (q *System) margin(nodes Nodes) int {
	if len(q.sets) == 0 {
		return -1
	}
	least := math.MaxInt
	for _, set := range q.sets {
		least = min(least, (nodes&set).Count()-Need(set.Count()))
	}
	return least
}

// IsQuorum reports whether these nodes have a quorum of each set.
func (q *System) IsQuorum(nodes Nodes) bool { return q.Margin(nodes) >= 0 }

// FirstWithout returns the first set of which these nodes are no quorum. If there is none, it is
// the first set.
func (q *System) FirstWithout(nodes Nodes) Nodes {
	for _, set := range q.sets {
		if (nodes & set).Count() < Need(set.Count()) {
			return set
		}
	}
	return q.sets[0]
}

// MayDecide reports whether the votes of these nodes may decide an attempt that asks all nodes: the
// others are no quorum any more.
func (q *System) MayDecide(voted Nodes) bool { return !q.IsQuorum(q.nodes &^ voted) }

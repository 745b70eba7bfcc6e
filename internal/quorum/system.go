package quorum

import (
	"math"
	"slices"
)

// MaxSystems is the most quorum systems that there can be.
const MaxSystems = 256

// System is a quorum system: the sets of nodes in each of which a claim needs a quorum. Mostly it
// is one set, and then no loop is made. Two claims exclude each other if their systems share a set:
// both need a quorum of it. So while a fleet moves from one set of nodes to another, its clients
// need both in between. The zero value never grants.
type System struct {
	nodes Nodes   // of all sets
	sets  []Nodes // if there are several; they differ
}

// NewSystem returns the system with these sets.
func NewSystem(sets ...Nodes) System {
	q := System{sets: Distinct(sets)}
	for _, set := range q.sets {
		q.nodes |= set
	}
	if len(q.sets) == 1 {
		q.sets = nil
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

// isOneSet reports whether there is one set, which is q.nodes.
func (q *System) isOneSet() bool { return len(q.sets) == 0 }

// Sets returns all sets.
func (q *System) Sets() []Nodes {
	if q.isOneSet() {
		return []Nodes{q.nodes}
	}
	return q.sets
}

// together decides by all sets.
func (q *System) together(votesIn func(set Nodes) prospects) Decision {
	all := votesIn(q.sets[0])
	for _, set := range q.sets[1:] {
		all = all.with(votesIn(set))
	}
	return all.decision()
}

// Acquire decides an acquire.
func (q *System) Acquire(granted, refused, unknown Nodes) Decision {
	if q.isOneSet() {
		return acquire(q.nodes, granted, refused, unknown).decision()
	}
	return q.together(func(set Nodes) prospects {
		return acquire(set, granted, refused, unknown)
	})
}

// Extension decides an extension. lostKeys are the nodes that had lost the keys when an earlier one
// came that was not confirmed. If a quorum of one set may be without the keys, a client that needs
// no other set can have had them, and the lease is lost.
func (q *System) Extension(granted, refused, lostKeys, unknown Nodes) Decision {
	if q.isOneSet() {
		return extension(q.nodes, granted, refused, lostKeys, unknown).decision()
	}
	return q.together(func(set Nodes) prospects {
		return extension(set, granted, refused, lostKeys, unknown)
	})
}

// Release decides a release. neverHeld are nodes that never had the token, and were not asked. A
// node that deleted had the token, and one that is gone had lost it. If the others can't be a
// quorum, another client may have held the keys: Held.
func (q *System) Release(neverHeld, deleted, gone, unknown Nodes) Decision {
	d := q.released(neverHeld, deleted|gone, unknown)
	if d != Won || gone == 0 || q.IsQuorum(deleted) {
		return d
	}
	switch had := q.Nodes() &^ (gone | neverHeld); {
	case !q.IsQuorum(had):
		return Held
	case had&^(deleted|unknown) != 0:
		return Undecided // they say whether they had it
	}
	return Won
}

func (q *System) released(neverHeld, confirmed, unknown Nodes) Decision {
	if q.isOneSet() {
		return release(q.nodes, neverHeld, confirmed, unknown).decision()
	}
	return q.together(func(set Nodes) prospects {
		return release(set, neverHeld, confirmed, unknown)
	})
}

// BlocksOtherQuorum reports whether these nodes, which had the keys all the time, are so many that
// no quorum of any set can have been without them.
func (q *System) BlocksOtherQuorum(kept Nodes) bool {
	for _, set := range q.Sets() {
		if n := set.Count(); (kept & set).Count() <= n-Need(n) {
			return false
		}
	}
	return true
}

// Margin returns how many of these nodes are more than a quorum, in the set where they are fewest.
// Below 0 they are no quorum of it.
func (q *System) Margin(nodes Nodes) int {
	if q.isOneSet() {
		return (nodes & q.nodes).Count() - Need(q.nodes.Count())
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
	sets := q.Sets()
	for _, set := range sets {
		if (nodes & set).Count() < Need(set.Count()) {
			return set
		}
	}
	return sets[0]
}

// MayDecide reports whether it is worth it to wake the caller of an attempt that asks all nodes. It
// takes each answered node for a grant, unless other votes were recorded, and the nodes without an
// answer for anything but a grant.
func (q *System) MayDecide(answered, without Nodes, recorded bool) bool {
	if q.isOneSet() {
		quorate, impossible := mayDecide(q.nodes, answered, without, recorded)
		return quorate || impossible
	}
	all := true
	for _, set := range q.sets {
		quorate, impossible := mayDecide(set, answered, without, recorded)
		if impossible {
			return true
		}
		all = all && quorate
	}
	return all
}

// mayDecide reports whether a quorum of the set can have granted, and whether so many can have not
// that a quorum is impossible. With an even number of nodes, fewer refusals than grants decide.
func mayDecide(set, answered, without Nodes, recorded bool) (quorate, impossible bool) {
	n := set.Count()
	need := Need(n)
	lose := n - need + 1
	answers, others := (answered & set).Count(), (without & set).Count()
	return answers >= need, others >= lose || recorded && answers+others >= lose
}

// Package quorum counts votes. It decides an attempt by the votes of its nodes, as soon as the open
// votes cannot change the outcome. All of it is pure.
//
// A claim needs a quorum of one set of nodes or of several: see System.
package quorum

import "math/bits"

// Decision is the outcome of the votes so far. The zero value decides nothing.
type Decision uint8

const (
	// Undecided: the open votes can still change the outcome.
	Undecided Decision = iota
	// Won: a quorum granted, of each set.
	Won
	// Held: so many refused that a quorum is impossible, of some set.
	Held
	// NoQuorum: a quorum is impossible, and the outcome can no longer become Held.
	NoQuorum
)

// Nodes is a set of nodes by their index, so that votes are counted without a loop. It bounds the
// number of nodes.
type Nodes uint64

// MaxNodes is the most nodes that there can be.
const MaxNodes = 64

// Node returns the set of the node with this index.
func Node(i int) Nodes { return 1 << i }

// First returns the set of the first n nodes.
func First(n int) Nodes { return Nodes(^uint64(0) >> (64 - n)) }

// Has reports whether the node with this index is one of the nodes.
func (s Nodes) Has(i int) bool { return s>>i&1 == 1 }

// Count returns how many nodes they are.
func (s Nodes) Count() int { return bits.OnesCount64(uint64(s)) }

// Lowest returns the lowest index; MaxNodes if there are no nodes.
func (s Nodes) Lowest() int { return bits.TrailingZeros64(uint64(s)) }

// Need returns how many of n nodes must grant: any two quorums share a node.
func Need(n int) int { return n/2 + 1 }

// prospects are what the votes in one set of nodes say. In several sets together, all have to be
// won, and one that is held is enough. The zero value is that a quorum is impossible.
type prospects struct {
	won, held       bool // whatever the open votes are
	mayWin, mayHold bool // if the open votes all fall that way
}

// with returns what the votes of two sets say together. A client that needs a quorum of only one of
// them is excluded by that set alone.
func (p prospects) with(o prospects) prospects {
	return prospects{
		won: p.won && o.won, held: p.held || o.held,
		mayWin: p.mayWin && o.mayWin, mayHold: p.mayHold || o.mayHold,
	}
}

func (p prospects) decision() Decision {
	switch {
	case p.won:
		return Won
	case p.held:
		return Held
	case p.mayWin || p.mayHold:
		return Undecided
	}
	return NoQuorum
}

// acquire counts the votes of a set on an acquire. No nodes never win.
func acquire(set, granted, refused, unknown Nodes) prospects {
	n := set.Count()
	if n == 0 {
		return prospects{}
	}
	need := Need(n)
	lose := n - need + 1 // that many refusals make a quorum impossible
	open := (set &^ (granted | refused | unknown)).Count()
	grants, refusals := (granted & set).Count(), (refused & set).Count()
	return prospects{
		won: grants >= need, held: refusals >= lose,
		mayWin: grants+open >= need, mayHold: refusals+open >= lose,
	}
}

// extension counts the votes of a set on an extension. lostKeys are the nodes that had lost the
// keys when an earlier extension came that was not confirmed. Their grants count only once no open
// vote can show that a quorum was without the keys. A node whose vote is unknown shows nothing. The
// outcome is held when another client can have had a quorum, on nodes that refuse or had lost the
// keys. So one node that forgets can cost a lease that has only a quorum: another client could have
// had that node and those that did not grant. Half of an even number is not enough for a quorum.
func extension(set, granted, refused, lostKeys, unknown Nodes) prospects {
	need := Need(set.Count())
	open := set &^ (granted | refused | unknown)
	gone := (refused | lostKeys) & set
	granted &= set
	mayLose := (gone | open).Count() >= need
	return prospects{
		won:    (granted&^lostKeys).Count() >= need || granted.Count() >= need && !mayLose,
		held:   gone.Count() >= need,
		mayWin: (granted | open).Count() >= need, mayHold: mayLose,
	}
}

// release counts the votes of a set on a release. neverHeld nodes never had the token, and
// were not asked. It wins when a quorum confirmed, or all nodes that were asked. If some of them
// can't confirm, it wins when those that did and the neverHeld ones together are a quorum. It waits
// for all if it can, so that the next holder finds all nodes free, and not just enough of them.
func release(set, neverHeld, confirmed, unknown Nodes) prospects {
	n := set.Count()
	if n == 0 {
		return prospects{}
	}
	need := Need(n)
	free := ((confirmed | neverHeld) & set).Count()
	open := (set &^ (confirmed | neverHeld | unknown)).Count()
	return prospects{
		won:    (confirmed&set).Count() >= need || open == 0 && free >= need,
		mayWin: free+open >= need,
	}
}

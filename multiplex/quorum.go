package multiplex

import "math/bits"

// vote is one node's answer to an attempt. The zero value never grants.
type vote uint8

const (
	// unknown: no answer, a broken connection or an error: it counts for nothing, but the node may
	// have done it.
	unknown vote = iota
	// granted: the node did it for the whole set of keys.
	granted
	// refused: the node did not, because another token holds a key (or, for an extension, because
	// ours was gone).
	refused
)

// decision is what the votes so far amount to. The zero value decides nothing.
type decision uint8

const (
	// pending: the votes that are open can still change the outcome.
	pending decision = iota
	// won: a quorum granted.
	won
	// held: so many refused that a quorum is impossible.
	held
	// noQuorum: a quorum is impossible, and it can no longer become a held.
	noQuorum
)

// nodeSet is a set of nodes by their number, so that votes are counted without a loop. It bounds
// the number of nodes.
type nodeSet uint64

// MaxNodes is the most nodes that a Mux takes.
const MaxNodes = 64

func nodeBit(i int) nodeSet      { return 1 << i }
func (s nodeSet) has(i int) bool { return s>>i&1 == 1 }
func (s nodeSet) count() int     { return bits.OnesCount64(uint64(s)) }
func allNodes(n int) nodeSet     { return nodeSet(^uint64(0) >> (64 - n)) }
func (s nodeSet) first() int     { return bits.TrailingZeros64(uint64(s)) }

// quorum returns how many of n nodes must grant: any two quorums share a node.
func quorum(n int) int { return n/2 + 1 }

// decide counts votes of n nodes on an acquire, as soon as the open ones cannot change the outcome
// any more. No nodes never win.
func decide(n, granted, refused, unknown int) decision {
	need := quorum(n)
	lose := n - need + 1 // so many refusals make a quorum impossible
	open := n - granted - refused - unknown
	switch {
	case n <= 0:
		return noQuorum
	case granted >= need:
		return won
	case refused >= lose:
		return held
	case granted+open >= need, refused+open >= lose:
		return pending
	}
	return noQuorum
}

// decideExtend counts the votes on an extension. missed nodes had lost the keys when an earlier
// extension came, which was not confirmed: their grants count only once it is certain that a quorum
// never was without the keys. It is held when another can have had a quorum: on nodes that refuse,
// or were missed.
func decideExtend(n int, granted, refused, lostKeys, unknown nodeSet) decision {
	need := quorum(n)
	gone := refused | lostKeys
	open := allNodes(n) &^ (granted | refused | unknown)
	mayHold := (granted | open).count() >= need
	mayLose := (gone | open).count() >= need
	switch {
	case (granted &^ lostKeys).count() >= need:
		return won
	case gone.count() >= need:
		return held
	case granted.count() >= need && !mayLose:
		return won
	case open != 0 && (mayHold || mayLose):
		return pending
	}
	return noQuorum
}

// undivided reports whether these nodes, which had the keys all the time, are so many that no
// quorum can have been without.
func blocksOtherQuorum(n int, kept nodeSet) bool { return kept.count() > n-quorum(n) }

// decideRelease counts the votes on a release. absent nodes never had the token, and were not
// asked. It wins when a quorum confirmed, or all that were asked; and where some of them can't
// confirm, when those that did and the absent ones make a quorum together. It prefers the former so
// that whoever acquires next finds the nodes free, not only enough of them.
func decideRelease(n, neverHeld, confirmed, unknown int) decision {
	need := quorum(n)
	open := n - neverHeld - confirmed - unknown
	switch {
	case n <= 0:
		return noQuorum
	case confirmed >= need, confirmed+neverHeld == n:
		return won
	case open > 0 && confirmed+neverHeld+open >= need:
		return pending
	case confirmed+neverHeld >= need:
		return won
	}
	return noQuorum
}

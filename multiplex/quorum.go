package multiplex

import "math/bits"

// decision is the outcome of the votes so far. The zero value decides nothing.
type decision uint8

const (
	// undecided: the open votes can still change the outcome.
	undecided decision = iota
	// won: a quorum granted.
	won
	// held: so many refused that a quorum is impossible.
	held
	// noQuorum: a quorum is impossible, and the outcome can no longer become held.
	noQuorum
)

// nodeSet is a set of nodes by their index, so that votes are counted without a loop. It bounds the
// number of nodes.
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

// decide counts the votes of n nodes on an acquire, and decides as soon as the open ones cannot
// change the outcome. No nodes never win.
func decide(n, granted, refused, unknown int) decision {
	need := quorum(n)
	lose := n - need + 1 // that many refusals make a quorum impossible
	open := n - granted - refused - unknown
	switch {
	case n <= 0:
		return noQuorum
	case granted >= need:
		return won
	case refused >= lose:
		return held
	case granted+open >= need, refused+open >= lose:
		return undecided
	}
	return noQuorum
}

// decideExtend counts the votes on an extension. lostKeys are the nodes that had lost the keys when
// an earlier extension came that was not confirmed. Their grants count only once no open vote can
// show that a quorum was without the keys. A node whose vote is unknown shows nothing. The outcome
// is held when another client can have had a quorum, on nodes that refuse or had lost the keys.
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
		return undecided
	}
	return noQuorum
}

// blocksOtherQuorum reports whether these nodes, which had the keys all the time, are so many that
// no quorum can have been without them.
func blocksOtherQuorum(n int, kept nodeSet) bool { return kept.count() > n-quorum(n) }

// decideRelease counts the votes on a release. neverHeld nodes never had the token, and were not
// asked. It wins when a quorum confirmed, or all nodes that were asked. If some of them can't
// confirm, it wins when those that did and the neverHeld ones together are a quorum. It waits for
// all if it can, so that the next holder finds all nodes free, and not just enough of them.
func decideRelease(n, neverHeld, confirmed, unknown int) decision {
	need := quorum(n)
	open := n - neverHeld - confirmed - unknown
	switch {
	case n <= 0:
		return noQuorum
	case confirmed >= need, confirmed+neverHeld == n:
		return won
	case open > 0 && confirmed+neverHeld+open >= need:
		return undecided
	case confirmed+neverHeld >= need:
		return won
	}
	return noQuorum
}

package batch

import "slices"

// Round is a part of the log that every reader gets as a whole. While it is open it takes
// operations, and they can be cancelled. Once it is sealed, it does not change any more.
type Round[Op, State any] struct {
	// State is the owner's. Config.Open prepares it.
	State State

	// Guarded by the log's mu until the round is sealed:

	ops     []*Op    // in the order in which they were appended; nil: cancelled
	wanted  []uint64 // the readers of each, as bits; nil once the round is sealed
	live    int      // how many were not cancelled
	limited int      // of these, how many count towards Limit
	weight  int      // of all that were not cancelled
	readers uint64   // of these
	number  uint64   // from 1, in the order of the log; 0 while it is open
	// Memory of ops and wanted, if nothing else comes.
	first       [1]*Op
	firstWanted [1]uint64
}

// Ops returns the operations of a sealed round, at least one.
func (r *Round[Op, State]) Ops() []*Op { return r.ops }

// Readers returns the readers that get a sealed round, as bits: those that an operation is for.
func (r *Round[Op, State]) Readers() uint64 { return r.readers }

// Drop forgets the operations. The owner calls it when no reader needs them any more. So an
// operation that refers to the round keeps none of the others alive.
func (r *Round[Op, State]) Drop() { r.ops, r.first = nil, [1]*Op{} }

// isFull reports whether an operation of this weight needs another round. Cancelled operations
// count too, so that a round that nobody takes does not grow. The log's mu is held.
func (r *Round[Op, State]) isFull(weight, most int) bool {
	return r.weight+weight > most || len(r.ops) >= 2*most
}

// isFor reports whether the round is for a reader. The log's mu is held.
func (r *Round[Op, State]) isFor(reader int) bool { return r.readers>>reader&1 == 1 }

// findReaders finds the readers of what was not cancelled. It begins with the newest operations:
// few of them were cancelled, so it soon has all readers. The log's mu is held.
func (r *Round[Op, State]) findReaders() {
	all := r.readers
	r.readers = 0
	for i := len(r.ops) - 1; i >= 0 && r.readers != all; i-- {
		if r.ops[i] != nil {
			r.readers |= r.wanted[i]
		}
	}
}

// seal removes what was cancelled. The log's mu is held.
func (r *Round[Op, State]) seal(number uint64) {
	r.number, r.wanted = number, nil
	r.ops = slices.DeleteFunc(r.ops, func(op *Op) bool { return op == nil })
}

// Place is where an operation is in a log.
type Place[Op, State any] struct {
	Round *Round[Op, State]
	index int
}

package batch

// Round is a part of the log that every reader gets as a whole. While it is open it takes
// operations, and they can be cancelled. Once it is sealed, it does not change any more.
type Round[Op, State any] struct {
	// State is the owner's. Config.Open prepares it.
	State State

	// Guarded by the log's mu until the round is sealed:

	ops     []*Op  // in the order in which they were appended, without cancelled ones
	limited int    // how many of ops count towards Limit
	weight  int    // of ops
	readers uint64 // of all that were appended, as bits
	number  uint64 // from 1, in the order of the log; 0 while it is open
	first   [1]*Op // memory of ops, if nothing else comes
}

// Ops returns the operations of a sealed round, at least one.
func (r *Round[Op, State]) Ops() []*Op { return r.ops }

// Readers returns the readers that get a sealed round, as bits: those that an operation is for, or
// one that was cancelled.
func (r *Round[Op, State]) Readers() uint64 { return r.readers }

// Drop forgets the operations. The owner calls it when no reader needs them any more. So an
// operation that refers to the round keeps none of the others alive.
func (r *Round[Op, State]) Drop() { r.ops, r.first = nil, [1]*Op{} }

// isFor reports whether the round is for a reader. The log's mu is held.
func (r *Round[Op, State]) isFor(reader int) bool { return r.readers>>reader&1 == 1 }

package batch

import "sync/atomic"

// Call is one operation on its way through one Pipeline. It is embedded by its owner, so that it
// costs no allocation. The zero value with Op set is ready for Enqueue. It must not be copied after
// that.
type Call[Op any] struct {
	// Op is set once, before Enqueue.
	Op    Op
	state atomic.Uint32
	// limited: it counts towards the pipeline's limit; guarded by the pipeline's lock.
	limited bool
}

// Stage is how far a call has come.
type Stage uint32

const (
	// Fresh: never enqueued.
	Fresh Stage = iota
	// Queued: it waits, and nothing was sent.
	Queued
	// Sent: it is part of a flush under way; whether it takes effect is open until Done is called.
	Sent
	// Answered: Done was called, or is being called.
	Answered
	// Cancelled: it was not sent and never will be, and Done is never called.
	Cancelled
)

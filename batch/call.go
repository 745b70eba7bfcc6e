package batch

import "sync/atomic"

// Call is one operation on its way through one Pipeline. Its owner embeds it, so it costs no
// allocation. The zero value with Op set is ready for Enqueue. It must not be copied after that.
type Call[Op any] struct {
	// Op is set once, before Enqueue.
	Op    Op
	state atomic.Uint32 // a callState
	// limited: it counts towards the pipeline's limit; guarded by the pipeline's lock.
	limited bool
}

// callState is how far a call has come. The zero value: it was never enqueued.
type callState = uint32

const (
	// queued: it waits, and nothing was sent.
	queued callState = iota + 1
	// sent: it is part of a flush under way. Whether it takes effect is open until Done is called.
	sent
	// answered: Done was called, or is being called.
	answered
	// cancelled: it was not sent and never will be, and Done is never called.
	cancelled
)

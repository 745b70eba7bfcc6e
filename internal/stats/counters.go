package stats

import "sync/atomic"

// Call is a kind of acquiring calls, which are counted together.
type Call uint8

// The kinds of calls.
const (
	Try   Call = iota // TryAcquire, TryAcquireAll, TryAcquireAny, Adopt
	Wait              // Acquire, AcquireAll, AcquireAny, Do, DoAll, each campaign of Elect
	Each              // each key of TryAcquireEach
	Async             // AcquireAsync
)

// kinds are the names of the calls, in the order of the rows.
var kinds = [...]string{Try: "try", Wait: "wait", Each: "each", Async: "async"}

// Outcome is how a call, an attempt, a lease, an extension or a release ended.
type Outcome uint8

// The outcomes.
const (
	Granted      Outcome = iota // a lease
	Held                        // ErrHeld
	NoQuorum                    // ErrNoQuorum
	Late                        // a quorum granted, but the time was over
	Canceled                    // the caller's ctx ended
	Overloaded                  // ErrOverloaded
	Closed                      // ErrClosed
	Invalid                     // ErrInvalid
	Released                    // by its holder
	Expired                     // ErrExpired
	Lost                        // ErrLost
	Kept                        // ErrKept
	Confirmed                   // by a quorum
	HandedOver                  // to the next caller of this process
	AlreadyEnded                // the lease had ended before
)

// String returns the outcome's name, in lower case.
func (o Outcome) String() string {
	return [...]string{
		"granted", "held", "no_quorum", "late", "canceled", "overloaded", "closed", "invalid",
		"released", "expired", "lost", "kept", "confirmed", "handed_over", "already_ended",
	}[o]
}

// The outcomes that there are of each, in the order of the rows. Those of calls and attempts are
// behind Granted.
var (
	callFailures      = [...]Outcome{Held, NoQuorum, Canceled, Overloaded, Closed, Invalid}
	attemptFailures   = [...]Outcome{Held, NoQuorum, Late, Canceled, Overloaded, Closed}
	extensionOutcomes = [...]Outcome{Confirmed, NoQuorum, Canceled, Lost, AlreadyEnded}
	endOutcomes       = [...]Outcome{Released, Kept, Expired, Lost, Closed}
	releaseOutcomes   = [...]Outcome{Confirmed, HandedOver, NoQuorum, Canceled, Lost, AlreadyEnded}
)

// Counters counts how calls, attempts, leases, extensions and releases of a client end. What
// follows from other counts is not counted: a call that makes just one attempt counts as a call.
// The zero value is ready. All methods are safe for concurrent use, and none of them blocks.
type Counters struct {
	// Attempts are the times that attempts took, from before they were sent. The attempt by which a
	// Try or an Each call got its lease is in Grants alone.
	Attempts   [Closed + 1]Histogram
	Grants     [len(kinds)]Histogram                  // the times of calls that got a lease
	Failures   [len(kinds)][Invalid + 1]atomic.Uint64 // calls that got none
	Holds      [Kept + 1]Histogram                    // for how long leases were held
	Extensions [AlreadyEnded + 1]atomic.Uint64
	Releases   [AlreadyEnded + 1]atomic.Uint64 // calls to release a lease
}

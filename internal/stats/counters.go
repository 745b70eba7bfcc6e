package stats

import (
	"sync/atomic"
	"time"
)

// Call is a kind of acquiring calls, which are counted together.
type Call uint8

// The kinds of calls.
const (
	Try   Call = iota // TryAcquire, TryAcquireAll, TryAcquireAny
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
	attempts   [Closed + 1]Histogram
	grants     [len(kinds)]Histogram
	failures   [len(kinds)][Invalid + 1]atomic.Uint64 // calls
	holds      [Kept + 1]Histogram
	extensions [AlreadyEnded + 1]atomic.Uint64
	releases   [AlreadyEnded + 1]atomic.Uint64
}

// Attempt counts an attempt and the time that it took, from before it was sent. The attempt by
// which a Try or an Each call got its lease is counted by CallGranted alone.
func (c *Counters) Attempt(o Outcome, took time.Duration) { c.attempts[o].Observe(took) }

// CallGranted counts a call that got a lease, and the time that it took.
func (c *Counters) CallGranted(k Call, took time.Duration) { c.grants[k].Observe(took) }

// CallFailed counts calls that got no lease.
func (c *Counters) CallFailed(k Call, o Outcome, calls int) { c.failures[k][o].Add(uint64(calls)) }

// Ended counts a lease, and the time for which it was held.
func (c *Counters) Ended(o Outcome, held time.Duration) { c.holds[o].Observe(held) }

// Extended counts an extension.
func (c *Counters) Extended(o Outcome) { c.extensions[o].Add(1) }

// Released counts a call to release a lease.
func (c *Counters) Released(o Outcome) { c.releases[o].Add(1) }

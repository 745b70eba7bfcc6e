package lockpipe

import (
	"math"

	"github.com/lockpipe/lockpipe/internal/stats"
)

// Stats are counts since New. Held, SpareNodes, Waiters, ForeignLayouts and the fields that begin
// with Pending are of now.
type Stats struct {
	// Flushes is the number of flushes to the nodes.
	Flushes uint64
	// Operations is the number of operations that they carried: an acquire on five nodes counts
	// five times.
	Operations uint64
	// Attempts is the number of attempts to acquire that were sent to the nodes.
	Attempts uint64
	// SplitVotes is the number of attempts that failed because contenders divided the votes: the
	// nodes that granted and those that refused were a quorum together. Maybe none got a lease.
	SplitVotes uint64
	// PendingReleases is the number of releases that are kept now for nodes that could not answer
	// them, added up over the nodes.
	PendingReleases int
	// DroppedReleases is the number of releases that were kept and then dropped, because their keys
	// had expired or too many were kept for a node.
	DroppedReleases uint64
	// Handovers is the number of leases that were handed to a waiting caller of this Client instead
	// of being released.
	Handovers uint64
	// Held is the number of leases that are held now.
	Held int
	// PendingCalls is the number of calls that are under way now.
	PendingCalls int
	// Waiters is the number of waiting calls that queue in the process for their keys now.
	Waiters int
	// PendingAsync is the number of calls of AcquireAsync that are pending now, or wait for their
	// function.
	PendingAsync int
	// SpareNodes is how many more nodes may fail while a quorum remains; negative if there is no
	// quorum. With several groups it is that of the group that has the fewest.
	SpareNodes int
	// ForeignLayouts is how many layouts other clients use on the nodes now that share no quorum
	// with this Client's: these clients and this one do not exclude each other.
	ForeignLayouts int
	// Extended is the number of extensions that a quorum confirmed, automatic ones and those of
	// Lease.Extend.
	Extended uint64
	// Expired and Lost are the numbers of leases that ended by ErrExpired and ErrLost.
	Expired, Lost uint64
	// CallbackPanics is the number of panics in OnLost and in functions given to AcquireAsync.
	CallbackPanics uint64
	// DroppedCallbacks is the number of lost or expired leases for which OnLost was not called,
	// because too many calls of it were waiting.
	DroppedCallbacks uint64
}

// Stats returns the counts. It sends nothing and does not block. It may be called at any time, also
// after Close.
func (c *Client) Stats() Stats {
	outcomes := &c.locker.Outcomes
	all := Stats{
		Handovers: c.locker.Handovers.Load(), Held: c.locker.Held(),
		Extended:       outcomes.Extensions[stats.Confirmed].Load(),
		Expired:        outcomes.Holds[stats.Expired].Snapshot().Total(),
		Lost:           outcomes.Holds[stats.Lost].Snapshot().Total(),
		CallbackPanics: c.callbacks.Panics(), DroppedCallbacks: c.callbacks.Dropped(),
		PendingCalls: c.locker.PendingCalls(), Waiters: c.calls.Waiting(),
		PendingAsync: c.calls.PendingAsync(), SpareNodes: math.MaxInt,
		ForeignLayouts: c.locker.Mux.Fleet.Foreign(),
	}
	for _, group := range c.locker.Mux.Muxes {
		attempts, splitVotes := group.Attempts()
		all.Attempts += attempts
		all.SplitVotes += splitVotes
		all.SpareNodes = min(all.SpareNodes, group.SpareNodes())
	}
	for _, n := range c.Nodes() {
		all.Flushes += n.Stats.Flushes
		all.Operations += n.Stats.Operations
		all.PendingReleases += n.PendingReleases
		all.DroppedReleases += n.DroppedReleases
	}
	return all
}

// OutcomeCount is how often calls, attempts, leases, extensions or releases had one outcome since
// New.
type OutcomeCount struct {
	// What is what ended: "call" (an acquiring call), "attempt" (to acquire, over all nodes),
	// "lease", "extension" or "release" (a call to release a lease).
	What string
	// Kind is that of a call, and otherwise "". It is "try" (TryAcquire, TryAcquireAll,
	// TryAcquireAny, Adopt), "wait" (Acquire, AcquireAll, AcquireAny, Do, DoAll, each campaign of
	// Elect), "each" (a key of TryAcquireEach) or "async" (AcquireAsync).
	Kind string
	// Outcome is how it ended, one lower-case word. docs/operations.md lists them.
	Outcome string
	// Count is how often.
	Count uint64
	// Durations are how long granted calls took, how long attempts took, and for how long leases
	// were held. Other outcomes have none.
	Durations LatencyHistogram
}

// Outcomes returns how often each outcome occurred, also those that have not occurred. It may be
// called at any time, as Stats.
func (c *Client) Outcomes() []OutcomeCount {
	var all []OutcomeCount
	c.locker.Outcomes.Rows(func(what, kind string, o stats.Outcome, count uint64,
		took stats.Snapshot,
	) {
		all = append(all, OutcomeCount{what, kind, o.String(), count, LatencyHistogram{took}})
	})
	return all
}

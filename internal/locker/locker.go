// Package locker takes leases on the nodes, holds them, and passes them on.
//
// A Locker makes one attempt at a time for a call, in one round trip, and begins the term of the
// lease if a quorum granted. It extends leases, releases them, or hands them to the next call of
// the process. It never waits for a holder: package calls does. It returns a Failure, and the
// root package makes an error of that.
package locker

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// MaxPending is the most acquiring calls that are pending in one client.
const MaxPending = 1 << 16

// Config says what a Locker calls. All of it is required.
type Config struct {
	// Clock is that of the leases.
	Clock *lease.Clock
	// VotesError returns the error of an extension or a release; nil if a quorum granted it.
	VotesError func(multiplex.Outcome) error
	// OnUnexpectedEnd is called once for each lease that was lost or expired. It must not block.
	OnUnexpectedEnd func(l *Lease, end error)
}

// Locker takes leases on the nodes of one client. All methods are safe for concurrent use.
type Locker struct {
	Mux    *parts.Mux      // set once
	Lines  *line.Places    // set once
	Fences *ids.FenceClock // set before the first attempt
	// Queue has the calls of this process that wait for keys, and the leases of calls that waited.
	// What is handed to a call with its turn is a *Handoff, or nil.
	Queue     keyqueue.Queue
	Outcomes  stats.Counters
	Handovers atomic.Uint64 // how many leases were handed off

	// Functions has the calls that run a function while they hold a lease: Close waits for them.
	Functions *Gate
	// Open is over when the close has begun.
	Open  context.Context
	close context.CancelFunc

	cfg         Config        // set once
	clock       *lease.Clock  // of cfg
	env         *parts.Config // set once
	tokenSuffix string        // of each token; set once
	// Set once: of leases whose only part is in a group of Mux, and at the end of those of several
	// parts; and of the calls that lack a quorum in a group.
	managers []managers
	outages  []*outage.Queue
	tokens   ids.Tokens
	changed  atomic.Pointer[chan struct{}] // what NodesChanged returns

	calls *Gate // of calls that acquire or release
}

// New returns a Locker of these nodes, which it begins to connect in the background. An error is
// about the nodes, and names them.
func New(nodes *parts.Nodes, cfg Config) (*Locker, error) {
	k := &Locker{
		cfg: cfg, clock: cfg.Clock, env: &nodes.Config, calls: newGate(), Functions: newGate(),
	}
	k.tokenSuffix = ids.OwnerSuffix(k.env.Owner)
	k.Fences = ids.NewFenceClock(time.Now, k.env.MaxTTL)
	k.Open, k.close = context.WithCancel(context.Background())
	changed := make(chan struct{})
	k.changed.Store(&changed)
	if err := k.connect(nodes); err != nil {
		return nil, err
	}
	k.Lines = line.NewPlaces()
	return k, nil
}

// Begin counts an acquiring call in, which has so many results. If it may not begin, Begin counts
// that, and returns why.
func (k *Locker) Begin(ctx context.Context, kind stats.Call, results int) (f *Failure) {
	n, open := k.calls.Enter()
	switch err := ctx.Err(); {
	case !open:
		f = &Failure{End: lease.ErrClosed}
	case n > MaxPending:
		f = Overloaded()
	case err != nil:
		f = &Failure{End: err}
	default:
		return nil
	}
	if open {
		k.End()
	}
	k.Outcomes.Failures[kind][f.outcome()].Add(uint64(results))
	return f
}

// End counts a call out. The last one lets Close continue.
func (k *Locker) End() { k.calls.Leave() }

// PendingCalls returns how many calls are under way.
func (k *Locker) PendingCalls() int { return int(k.calls.count.Load() &^ closedBit) }

// Owner returns lockpipe.Config.Owner.
func (k *Locker) Owner() string { return k.env.Owner }

// IsClosing reports whether the close has begun.
func (k *Locker) IsClosing() bool { return k.Open.Err() != nil }

// EndReason returns why a call ends before it is granted, or nil.
func (k *Locker) EndReason(ctx context.Context) error {
	if k.IsClosing() {
		return lease.ErrClosed
	}
	return ctx.Err()
}

// BeginClose has calls that wait return ErrClosed, and no further ones begin. It returns false if
// it was called before. Otherwise Close must follow.
func (k *Locker) BeginClose() bool {
	first := k.calls.close() // which is not empty before every term has ended
	if first {
		k.Functions.close()
		k.close()
	}
	return first
}

// Close ends and releases all leases, and closes the nodes. It returns when they have answered, or
// when ctx ends. failed are the errors of the releases, and held is how many leases there were. The
// leases of functions come later: each function releases its own when it returns. If it still runs
// when ctx ends, its lease ends, and the nodes keep its keys for the rest of their TTL: what it
// does may still need them.
func (k *Locker) Close(ctx context.Context) (failed []error, held int, err error) {
	leases, keys := k.endLeases(withoutFunction)
	attempts := make([]parts.Attempt, len(leases))
	for i, l := range leases {
		attempts[i] = l.claim.Release(keys)
	}
	k.Lines.LeaveAll() // else others wait for this client
	k.Functions.Leave()
	select {
	case <-k.Functions.empty:
	case <-ctx.Done():
		if n := k.Functions.count.Load() &^ closedBit; n > 0 {
			err = fmt.Errorf("%d functions still run, so their keys stay locked until their TTL "+
				"ends: %w", n, ctx.Err())
		}
	}
	_, _ = k.endLeases(withFunction)
	k.End()
	for i, a := range attempts {
		if votes := a.Wait(ctx); votes.Result == multiplex.NoQuorum {
			failed = append(failed, prefix.Errorf("release of %.64q not confirmed: %w",
				leases[i].Key(), k.cfg.VotesError(votes)))
		}
	}
	select { // a call under way ends within NodeTimeout, and releases what it was granted
	case <-k.calls.empty:
	case <-ctx.Done():
	}
	return failed, len(leases), cmp.Or(err, k.Mux.Close(ctx))
}

// endLeases ends all leases of one kind. It returns them, and how many keys they have.
func (k *Locker) endLeases(of kind) (leases []*Lease, keys int) {
	for _, m := range k.managers {
		for _, owner := range m[of].Close() {
			l := owner.(*Lease)
			leases = append(leases, l)
			keys += l.claim.Len()
		}
	}
	return leases, keys
}

package locker

import (
	"cmp"
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Handle returns what another process needs to adopt the keys after Keep.
func (l *Lease) Handle() string { return l.locker.Mux.Handle(l.claim) }

// Keep ends the lease, and then has the nodes keep its keys for d. The error is nil, how the lease
// had ended, or that of Config.VotesError. It is ErrLost if too few nodes had the keys although
// their time had not run out, and else ErrExpired.
func (l *Lease) Keep(ctx context.Context, d time.Duration) error {
	k := l.locker
	k.calls.count.Add(1) // as in startRelease
	defer k.End()
	until := l.term.Until()
	if end := l.term.End(lease.ErrKept); end != lease.ErrKept {
		return l.named(end)
	}
	a := l.claim.Keep(d)
	if l.holder != nil {
		// The next call of this process asks the nodes, and waits as for another process.
		k.leaveQueue(l)
	}
	ctx, cancel := outlive(ctx)
	defer cancel()
	votes := a.Wait(ctx)
	err := l.extensionError(votes)
	if votes.Result == multiplex.Held && k.clock.Since(until) >= 0 {
		at := k.clock.Time(cmp.Or(until, k.clock.Now())) // Keep may be called again
		err = &lease.EndError{End: lease.ErrExpired, Owner: l, At: at}
	}
	k.Outcomes.Releases[confirmation(err)].Add(1)
	return l.named(err)
}

// maxAdoptions is how many attempts a call makes that meets others who want to adopt the same keys.
const maxAdoptions = 5

// Adopt takes the keys that Keep has left, under a lease of its own. The failure is that of
// TryAcquire, or has the end ErrExpired: so few nodes have the keys that no quorum keeps them.
func (k *Locker) Adopt(ctx context.Context, h *ids.Handle, o *Options) (*Lease, *Failure) {
	return k.Call(ctx, o, func() (*Lease, *Failure) { return k.adopt(ctx, h, o) })
}

// adopt asks all nodes at once. If others ask at the same time, none of them may get a quorum, and
// each puts back what it took. Then each that took something tries again after a random delay, that
// doubles each time, until another has all. What it took shows that Keep was called, so from then
// on it also takes what Keep has missed.
func (k *Locker) adopt(ctx context.Context, h *ids.Handle, o *Options) (*Lease, *Failure) {
	a, takes, rivals := attempt{floor: h.Fence}, multiplex.TakesMarked, 0
	for {
		k.prepare(&a, h.Keys, o)
		a.lease.claim.Adopt(h, takes)
		a.of = a.lease.claim.Acquire(o.TTL, len(h.Keys))
		l, f := k.finish(ctx, &a, o)
		if f == nil {
			return l, nil
		}
		var seen multiplex.Adoption
		a.of.Adoption(&seen)
		switch {
		case a.mayRaiseFence():
		case f.IsHeld() && seen.Missing:
			return nil, &Failure{End: lease.ErrExpired}
		case !f.IsHeld(), !seen.Taken, rivals == maxAdoptions:
			return nil, f
		default:
			takes, rivals = multiplex.TakesUnmarked, rivals+1
		}
		a.cleanUp(ctx, len(h.Keys))
		if k.EndReason(ctx) != nil || rivals > 0 &&
			k.Sleep(ctx, o.RetryDelay()<<(rivals-1)) != nil {
			return nil, f
		}
	}
}

// Sleep waits for d, or until ctx or the client ends: then it returns why.
func (k *Locker) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-k.Open.Done():
	}
	return k.EndReason(ctx)
}

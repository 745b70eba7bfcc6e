package locker

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Release ends the lease, and hands it to the next call of the process or deletes its keys. The
// error is nil, how the lease had ended, or that of Config.VotesError. It is ErrLost too if the
// nodes did not have the keys any more, although their time had not run out.
func (l *Lease) Release(ctx context.Context) error {
	return l.endRelease(ctx, l.startRelease(l.claim.Len()))
}

// ReleaseAll is Release for many leases, in one round trip to each node. It returns the errors of
// those that failed.
func ReleaseAll(ctx context.Context, leases []*Lease) (failed []error) {
	releases := make([]startedRelease, len(leases))
	keys := 0
	for _, l := range leases {
		keys += l.claim.Len()
	}
	for i, l := range leases {
		releases[i] = l.startRelease(keys)
	}
	for i, r := range releases {
		if err := leases[i].endRelease(ctx, r); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// startedRelease is a release that is under way. Without an attempt there is nothing to wait for:
// the lease was handed off, or was over.
type startedRelease struct {
	attempt parts.Attempt
	end     error         // without an attempt: nil, or how the lease had ended
	until   lease.Instant // when the time of a lease would have run out that was held; else 0
}

// endRelease waits for the outcome of a release.
func (l *Lease) endRelease(ctx context.Context, r startedRelease) error {
	if r.attempt == nil {
		return l.named(r.end)
	}
	k := l.locker
	ctx, cancel := outlive(ctx)
	defer cancel()
	votes, err := r.attempt.Wait(ctx), error(nil)
	switch {
	case votes.Result != multiplex.Held:
		err = k.cfg.VotesError(votes)
	case r.until != 0 && k.clock.Since(r.until) < 0: // or the keys may have expired
		err = l.extensionError(votes)
	}
	k.Outcomes.Releases[confirmation(err)].Add(1)
	if r.until != 0 {
		k.notifyReleased(l)
	}
	return l.named(err)
}

// startRelease ends the term and sends the release; keys is how many keys are released together.
func (l *Lease) startRelease(keys int) (r startedRelease) {
	// Close waits for the calls that are counted here, so that it does not close the nodes before
	// the release is sent.
	k := l.locker
	k.calls.count.Add(1)
	defer k.End()
	var next *keyqueue.Call
	if r.until = l.term.Until(); r.until != 0 { // else the one that ended it passes the keys on
		next = k.successor(l)
	}
	if next != nil && l.handOff(next) {
		k.Outcomes.Releases[stats.HandedOver].Add(1)
		return startedRelease{}
	}
	end := l.term.End(lease.ErrReleased)
	if l.term.HandedOff() || end == lease.ErrKept { // maybe by another call at the same time
		if next != nil {
			next.Begin(nil)
		}
		unsent := stats.HandedOver
		if end == lease.ErrKept {
			unsent = stats.AlreadyEnded
		}
		k.Outcomes.Releases[unsent].Add(1)
		return startedRelease{}
	}
	r.attempt = l.claim.Release(keys)
	if r.until != 0 {
		k.passOn(l, next) // the next attempt goes behind the release
	}
	if !errors.Is(end, lease.ErrReleased) {
		k.Outcomes.Releases[stats.AlreadyEnded].Add(1)
		return startedRelease{end: end}
	}
	return r
}

// releaseInBackground deletes what the nodes have of the lease, and waits for nothing.
func (l *Lease) releaseInBackground() {
	if l.term.HandedOff() || l.term.Err() == lease.ErrKept {
		return // its keys are not its own any more
	}
	l.claim.Release(l.claim.Len())
	l.locker.passOn(l, nil)
}

// leaseEnded is what the lease manager calls for each lease that is over.
func (k *Locker) leaseEnded(owner any, end error, held time.Duration) {
	o := endOutcome(end)
	k.Outcomes.Holds[o].Observe(held)
	if o != stats.Lost && o != stats.Expired {
		return // the holder or Close has ended it
	}
	// A lease that simply expired leaves nothing on the nodes. After an extension, confirmed or
	// not, something may be left.
	l := owner.(*Lease)
	if errors.Unwrap(end) != lease.ErrExpired || l.claim.NeedsCleanup() {
		l.releaseInBackground()
	} else {
		k.passOn(l, nil)
	}
	k.cfg.OnUnexpectedEnd(l, end)
}

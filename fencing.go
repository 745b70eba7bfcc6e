package lockpipe

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// maxCatchUps is how often in a row an attempt is made again at once because its fence was too low. After the first time it is not, unless
	// others with a faster clock take the same keys in between.
	maxCatchUps = 3
	// A lease for whose keys others of the process wait reserves maxHandOver numbers beyond its own, for those it is handed to. All that one
	// client reserves may not lead its clock ahead of the wall clock by more than this part of MaxTTL: after a node forgot its companions only the
	// wall clocks keep the order. A lease gets one in reserveParts of what is left, so there is something for all.
	leadParts, reserveParts = 4, 16
)

// fences is a hybrid logical clock: the microseconds of the wall clock since 1970, but always above all that it has proposed or seen. Its numbers
// are only proposals; the nodes see to it that they rise (see multiplex.Claim.Fence), and with clocks that agree they do so at the first try.
type fences struct {
	wall func() time.Time // set once
	lead int64            // microseconds; set once
	last atomic.Int64     // the highest number proposed or seen
}

// take returns the numbers from first to last: at least one, and at most so many.
func (f *fences) take(most int64) (first, last int64) {
	for {
		before, now := f.last.Load(), f.wall().UnixMicro()
		first = min(max(before+1, now), multiplex.MaxFence)
		last = min(first-1+max(1, min(most, (now+f.lead-first)/reserveParts)), multiplex.MaxFence)
		if f.last.CompareAndSwap(before, last) {
			return first, last
		}
	}
}

// see lets all further numbers be above n.
func (f *fences) see(n int64) {
	for before := f.last.Load(); n > before; before = f.last.Load() {
		if f.last.CompareAndSwap(before, n) {
			return
		}
	}
}

// numbers is how many fences an attempt asks for, at most. shared: others of the process wait for the keys.
func (o call) numbers(shared bool) int64 {
	switch {
	case !o.fencing:
		return 0
	case shared:
		return 1 + maxHandOver
	}
	return 1
}

// awaited reports whether others of the process wait for the keys of a call with fencing, so that its lease may be handed to them.
func (c *Client) awaited(keys []string, o call) bool {
	return o.fencing && c.rooms.Waiting() > 0 && c.rooms.Waits(room(keys))
}

// catchUp takes what a failed attempt has seen, and reports whether another one is worth making at once, with a higher fence. Where nodes may have
// something of the failed one, it waits until that is deleted: it would be in the way.
func (c *Client) catchUp(ctx context.Context, l *Lease, a *multiplex.Attempt) bool {
	seen, again, atOnce := a.Stale()
	c.fences.see(seen)
	if again && !atOnce {
		_ = c.mux.Release(l.claim, l.claim.Len()).Wait(ctx, time.Time{}) // unconfirmed, it is in the way at most
	}
	return again && ctx.Err() == nil
}

// catchUp is Client.catchUp for a call that has other things to do than to wait: where it would, it tries again as after every failure.
func (s *seeker) catchUp(t try) bool {
	seen, _, atOnce := t.attempt.Stale()
	s.client.fences.see(seen)
	if s.again = atOnce && s.stale < maxCatchUps; s.again {
		s.stale++
	} else {
		s.stale = 0
	}
	return s.again
}

// Fence returns the number of a lease that was taken with WithFencing, also when it is over, and else 0.
func (l *Lease) Fence() int64 {
	if l == nil || l.turns != nil && !l.turns.fenced {
		return 0
	}
	return l.number()
}

// number is the lease's own of those that its claim reserved, whether or not it was asked for; 0 where there are none.
func (l *Lease) number() int64 {
	if l.turns != nil {
		return l.turns.number
	}
	first, _ := l.claim.Fences()
	return first
}

// nextNumber is what the next holder gets where the lease is handed over. false: the reserved numbers have run out, and the nodes must be
// asked for more.
func (l *Lease) nextNumber() (n int64, ok bool) {
	first, last := l.claim.Fences()
	if first == 0 {
		return 0, true
	}
	n = l.number() + 1
	return n, n <= last
}

package lockpipe

import (
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// maxCatchUps is how often in a row an attempt is made again at once because its fence was too
	// low. After the first time it is not, unless others with a faster clock take the same keys in
	// between.
	maxCatchUps = 3
	// A lease for whose keys others of the process wait reserves maxHandOver numbers beyond its
	// own, for those it is handed to. All that one client reserves may not lead its clock ahead of
	// the wall clock by more than this part of MaxTTL, or maxLead: after a node forgot its
	// companions only the wall clocks keep the order. A lease gets one in reserveParts of what is
	// left, so there is something for all.
	leadParts, reserveParts = 4, 16
	maxLead                 = time.Minute
	// maxFollow is how far ahead of the wall clock a client's clock goes for what it has seen of
	// others. Up to that their clocks may just not be set well, and a client that is behind pays
	// its further round trip once and not for each key. What is beyond comes from a clock that is
	// wrong, or was written by hand: it must not spread from the keys that have it to others.
	maxFollow = 10 * time.Minute
)

// fences is a hybrid logical clock: the microseconds of the wall clock since 1970, but always above
// all that it has proposed, up to maxFollow ahead of the wall clock. Its numbers are only
// proposals; the nodes see to it that they rise (see multiplex.Claim.Fence), and with clocks that
// agree they do so at the first try.
type fences struct {
	wall func() time.Time // set once
	lead int64            // microseconds; set once
	last atomic.Int64     // the highest number proposed that all further ones are to be above
}

// take returns the numbers from first to last, which are above floor: at least one, and at most so
// many.
func (f *fences) take(floor, most int64) (first, last int64) {
	for {
		before, now := f.last.Load(), f.wall().UnixMicro()
		furthest := now + maxFollow.Microseconds()
		if first = now; before <= furthest { // else the wall clock was wrong, and was set back
			first = max(before+1, now)
		}
		first = min(max(first, floor+1), multiplex.MaxFence)
		last = min(first-1+max(1, min(most, (now+f.lead-first)/reserveParts)), multiplex.MaxFence)
		if last > furthest || f.last.CompareAndSwap(before, last) {
			return first, last
		}
	}
}

// numbers is how many fences an attempt asks for, at most. shared: others of the process wait for
// the keys.
func (o call) numbers(shared bool) int64 {
	switch {
	case !o.fencing:
		return 0
	case shared:
		return 1 + maxHandOver
	}
	return 1
}

// awaited reports whether others of the process wait for the keys of a call with fencing, so that
// its lease may be handed to them.
func (c *Client) awaited(keys []string, o call) bool {
	return o.fencing && c.rooms.Waiting() > 0 && c.rooms.Waits(room(keys))
}

// lag is what a call knows of its attempts that failed because their fences were too low.
type lag struct {
	floor  int64 // the fence of the next one is to be above
	row    int   // how many they were, in a row
	waited bool  // for what one of them may have left, which is done once
}

// after takes an attempt that failed, and reports whether another one is worth making at once, with
// a higher fence. wait: nodes may have something of the failed one, which would be in the way, so
// that its release is to be waited for.
func (g *lag) after(a *multiplex.Attempt) (again, wait bool) {
	seen, again, atOnce := a.FenceTooLow()
	if again { // a few nodes that have a higher one than the rest matter to nobody else
		g.floor = max(g.floor, seen)
	}
	if !again || g.row == maxCatchUps || !atOnce && g.waited {
		g.row = 0
		return false, false
	}
	g.row++
	g.waited = g.waited || !atOnce
	return true, !atOnce
}

// catchUp takes a failed attempt of a call that has other things to do than to wait: where it
// would, it tries again as after every failure.
func (s *seeker) catchUp(t try) bool {
	again, wait := s.behind.after(t.attempt)
	s.again = again && !wait
	return s.again
}

// Fence returns the number of a lease that was taken with WithFencing, also when it is over, and
// else 0.
func (l *Lease) Fence() int64 {
	if l == nil || l.turns != nil && !l.turns.fenced {
		return 0
	}
	return l.number()
}

// number is the lease's own of those that its claim reserved, whether or not it was asked for; 0
// where there are none.
func (l *Lease) number() int64 {
	if l.turns != nil {
		return l.turns.number
	}
	first, _ := l.claim.Fences()
	return first
}

// nextNumber is what the next holder gets where the lease is handed over. false: the reserved
// numbers have run out, and the nodes must be asked for more.
func (l *Lease) nextNumber() (n int64, ok bool) {
	first, last := l.claim.Fences()
	if first == 0 {
		return 0, true
	}
	n = l.number() + 1
	return n, n <= last
}

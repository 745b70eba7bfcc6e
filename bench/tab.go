package bench

import (
	"sync/atomic"
	"time"
)

// tab is what one caller noted of the interval that is under way. What happens before turn is
// called belongs to the interval before. It is owned by who owns the counts.
type tab struct {
	// set once
	series   *series
	counts   *counts
	acquired *atomic.Uint64

	from, until            time.Duration // of the interval, since the start
	told                   Tally         // what was handed over, of all that was counted
	acquire, wait, release strip
}

// turn begins the interval that has the moment in it, unless it has begun.
func (t *tab) turn(now time.Time) {
	at := now.Sub(t.series.start)
	if at < t.until {
		return
	}
	t.hand()
	t.from, t.until = t.series.interval(at)
}

// hand hands over what was noted.
func (t *tab) hand() {
	tally := t.counts.tally()
	tally.Acquired = t.acquired.Load()
	fresh := tally.less(t.told)
	if fresh == (Tally{}) && t.acquire.n == 0 && t.wait.n == 0 && t.release.n == 0 {
		return
	}
	t.told = tally
	t.series.add(t.from, fresh, t)
	t.acquire.reset()
	t.wait.reset()
	t.release.reset()
}

// add enters what a caller noted of the interval that began then.
func (s *series) add(from time.Duration, fresh Tally, t *tab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.at(from)
	p.tally.add(fresh)
	gather(&p.acquire, &t.acquire)
	gather(&p.wait, &t.wait)
	gather(&p.release, &t.release)
}

func (c *counts) tally() Tally {
	return Tally{
		Released: c.released, Refused: c.refused, NoQuorum: c.noQuorum, Expired: c.expired,
		Lost: c.lost, Errors: c.errors,
	}
}

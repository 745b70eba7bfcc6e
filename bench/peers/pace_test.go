package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// A caller that thinks does so from the end of its call; one with a timetable is due whatever its
// calls take.
func TestPace_WhenACallIsDue(t *testing.T) {
	think, even, closed := pace{mean: 10 * ms}, pace{mean: 10 * ms, timetable: true}, pace{}
	for _, c := range []struct {
		name       string
		p          pace
		free, want time.Duration
	}{
		{"thinking", think, 30 * ms, 35 * ms},
		{"timetable, early", even, 3 * ms, 7 * ms},
		{"timetable, late", even, 30 * ms, 7 * ms},
		{"closed loop", closed, 30 * ms, 30 * ms},
	} {
		if got := c.p.due(2*ms, c.free, 0.5); got != c.want {
			t.Errorf("%s: due at %v, want %v", c.name, got, c.want)
		}
	}
}

// A call that came due while the caller was busy counts from then; what a late timer costs is
// nobody's.
func TestPace_FromWhenACallCounts(t *testing.T) {
	think, even := pace{mean: ms}, pace{mean: ms, timetable: true}
	if got := even.from(5*ms, 9*ms, 9*ms); got != 5*ms {
		t.Errorf("due while busy: from %v", got)
	}
	if got := even.from(9*ms, 5*ms, 10*ms); got != 10*ms {
		t.Errorf("woken late: from %v", got)
	}
	if got := think.from(9*ms, 9*ms, 9*ms); got != 9*ms {
		t.Errorf("closed loop: from %v", got)
	}
}

// slow is a contender whose acquire and release take times of their own.
type slow struct {
	fake
	acquire, release time.Duration
	fails            bool
}

func (s slow) Lock(context.Context, string) (func() error, error) {
	time.Sleep(s.acquire)
	if s.fails {
		return nil, errors.New("no")
	}
	return func() error { time.Sleep(s.release); return nil }, nil
}

// Acquire and release have separate figures, and the rate is that of the timetable; in virtual
// time, so the figures are exact.
func TestPace_AcquireAndReleaseAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := contestant{
			tag: "zz", contender: slow{acquire: 2 * ms, release: 3 * ms},
			pace: &pace{mean: 100 * ms, timetable: true},
		}
		r := measure(t.Context(), scenario{callers: 200, keys: 1}, c, settings{
			warmup: time.Second,
			window: 20 * time.Second,
		})
		if r.P50 != 2*ms || r.ReleaseP50 != 3*ms || r.ReleaseP99 != 3*ms {
			t.Errorf("acquire %v, release %v to %v", r.P50, r.ReleaseP50, r.ReleaseP99)
		}
		// 200 callers, 10 times a second each: 40,000 in 20 s, with a standard deviation of 200.
		if r.Locks < 38_000 || r.Locks > 42_000 {
			t.Errorf("%v locks in %v", r.Locks, r.Window)
		}
	})
}

// A stall hits all calls that come due in it, not only those that were under way.
func TestPace_ATimetableSeesAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := contestant{tag: "zz", contender: slow{acquire: 20 * ms}, pace: &pace{
			mean:      10 * ms,
			timetable: true,
		}}
		r := measure(t.Context(), scenario{callers: 1, keys: 1}, c,
			settings{window: 10 * time.Second})
		// Calls come twice as fast as they are done, so in the middle of the window a call waited
		// for half of the time since the start.
		if r.P50 < time.Second {
			t.Errorf("p50 of an overloaded contender: %v", r.P50)
		}
		c.pace = &pace{mean: 10 * ms}
		r = measure(t.Context(), scenario{callers: 1, keys: 1}, c,
			settings{window: 10 * time.Second})
		if r.P50 != 20*ms || r.Max != 20*ms {
			t.Errorf("thinking callers: p50 %v, max %v", r.P50, r.Max)
		}
	})
}

// What fails is an error and no lock.
func TestPace_ErrorsAreNoLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := contestant{tag: "zz", contender: slow{acquire: ms, fails: true}, pace: &pace{}}
		r := measure(t.Context(), scenario{callers: 2, keys: 1}, c, settings{window: 100 * ms})
		if r.Locks != 0 || r.Errors < 100 || r.ReleaseP50 != 0 {
			t.Errorf("%+v", r)
		}
	})
}

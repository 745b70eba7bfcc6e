package suspension

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clocks are those of an operating system. A reading of their gap is as inexact as slack.
type clocks struct {
	awake, wall, gap, slack time.Duration
	broken                  error
	reads                   int
}

func (c *clocks) read() (least, most time.Duration, err error) {
	c.reads++
	return c.gap - c.slack/2, c.gap + c.slack/2, c.broken
}

func (c *clocks) pass(d time.Duration) { c.awake, c.wall = c.awake+d, c.wall+d }

func (c *clocks) suspend(d time.Duration) { c.gap, c.wall = c.gap+d, c.wall+d }

// check checks s, and also returns how often that read the clocks.
func (c *clocks) check(s *counter) (total time.Duration, reads int) {
	before := c.reads
	total = s.check(c.awake, c.wall-c.awake)
	return total, c.reads - before
}

// watched returns a counter that has just been checked, of a machine that slept for a day before.
func watched(t *testing.T) (*counter, *clocks) {
	t.Helper()
	c := &clocks{wall: 20 * time.Hour, gap: 24 * time.Hour, slack: time.Microsecond}
	s, err := newCounter(c.read)
	require.NoError(t, err)
	total, reads := c.check(s)
	require.Zero(t, total)
	require.Equal(t, 1, reads)
	return s, c
}

// The goal: the first check after a suspension counts it, with no more added than a reading is
// inexact; and the clocks are not read while nothing has happened.
func TestSuspension_SuspensionsAreCounted(t *testing.T) {
	s, c := watched(t)
	want := time.Duration(0)
	for _, slept := range []time.Duration{time.Millisecond, time.Second, 8 * time.Hour} {
		c.suspend(slept)
		want += slept
		total, reads := c.check(s)
		require.GreaterOrEqual(t, total, want)
		require.LessOrEqual(t, total, want+10*c.slack)
		require.Equal(t, 1, reads)
		c.pass(certainFor / 2)
		again, reads := c.check(s)
		require.Equal(t, total, again)
		require.Zero(t, reads)
	}
}

// The goal: setting the wall clock is no suspension. The clocks are read once for it.
func TestSuspension_ASetWallClockIsNoSuspension(t *testing.T) {
	s, c := watched(t)
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Millisecond} {
		c.wall += step
		for _, want := range []int{1, 0} {
			total, reads := c.check(s)
			require.Zero(t, total)
			require.Equal(t, want, reads)
		}
	}
}

// The goal: a suspension that the wall clock does not show is found a little later.
func TestSuspension_ASuspensionThatTheWallClockHidesIsFound(t *testing.T) {
	s, c := watched(t)
	c.suspend(time.Hour)
	c.wall -= time.Hour
	c.pass(certainFor)
	total, _ := c.check(s)
	require.InDelta(t, time.Hour, total, float64(10*c.slack))
}

// The goal: a goroutine that is stopped while it reads the clocks counts nothing, whatever readings
// come before and after; a suspension is not counted for less than it took because of it.
func TestSuspension_AnInexactReadingIsNoSuspension(t *testing.T) {
	s, c := watched(t)
	slacks := []time.Duration{
		time.Second, time.Microsecond, time.Minute, time.Hour,
		time.Nanosecond,
	}
	for _, slack := range slacks {
		c.slack = slack
		c.pass(certainFor)
		total, reads := c.check(s)
		require.Zero(t, total)
		require.Equal(t, 1, reads)
	}
	c.slack = time.Second
	c.suspend(time.Hour)
	total, _ := c.check(s)
	require.InDelta(t, time.Hour, total, float64(time.Second))
	require.GreaterOrEqual(t, total, time.Hour)
}

// The goal: if the clocks cannot be read, nothing is counted.
func TestSuspension_WithoutClocksNothingIsCounted(t *testing.T) {
	broken := errors.New("no such clock")
	_, err := newCounter((&clocks{broken: broken}).read)
	require.Equal(t, broken, err)
	s, c := watched(t)
	c.suspend(time.Hour)
	c.broken = broken
	total, _ := c.check(s)
	require.Zero(t, total)
	c.broken = nil
	total, _ = c.check(s)
	require.InDelta(t, time.Hour, total, float64(10*c.slack))
}

// The goal: checks at the same time agree, and each includes every suspension before it.
func TestSuspension_ChecksAtTheSameTimeAgree(t *testing.T) {
	var mu sync.Mutex
	c := clocks{slack: 2}
	s, err := newCounter(func() (least, most time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		return c.read()
	})
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				mu.Lock()
				c.suspend(time.Millisecond)
				at := c
				mu.Unlock()
				total, _ := at.check(s)
				if total < at.gap {
					t.Errorf("%v are counted of %v", total, at.gap)
					return
				}
			}
		})
	}
	all.Wait()
	c.pass(certainFor)
	total, _ := c.check(s)
	require.InDelta(t, 4*time.Second, total, float64(4000*2*c.slack))
}

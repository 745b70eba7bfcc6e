package lockpipe

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

// The goal: the clock follows the wall clock, and is above all that it has proposed where that
// stands or goes back, and above what a call has seen.
func TestFencesRiseWithTheWallClockAndWithout(t *testing.T) {
	wall := time.UnixMicro(5000)
	f := fences{wall: func() time.Time { return wall }}
	take := func(floor, wantFirst, wantLast int64) {
		t.Helper()
		first, last := f.take(floor, 1)
		require.Equal(t, []int64{wantFirst, wantLast}, []int64{first, last})
	}
	take(0, 5000, 5000)
	take(0, 5001, 5001)
	wall = time.UnixMicro(4000)
	take(0, 5002, 5002)
	take(7000, 7001, 7001)
	take(6000, 7002, 7002)
	wall = time.UnixMicro(8000)
	take(0, 8000, 8000)
	wall = time.UnixMicro(-1)
	take(0, 8001, 8001)
}

// The goal: what a call has seen beyond ten minutes ahead of the wall clock is topped by this call
// alone; up to there all further numbers are above it.
func TestWhatIsFarAheadOfTheWallClockStaysWithItsCall(t *testing.T) {
	wall := time.UnixMicro(1 << 50)
	f := fences{wall: func() time.Time { return wall }, lead: 15_000_000}
	furthest := wall.Add(10 * time.Minute).UnixMicro() // as docs/fencing.md says
	for _, floor := range []int64{
		furthest, furthest + 1, wall.Add(time.Hour).UnixMicro(), 1 << 52,
		multiplex.MaxFence - 1,
	} {
		first, last := f.take(floor, 1+maxHandoffs)
		require.Equal(t, []int64{floor + 1, floor + 1}, []int64{first, last})
	}
	first, last := f.take(0, 1+maxHandoffs)
	require.Equal(t, []int64{wall.UnixMicro(), wall.UnixMicro() + maxHandoffs}, []int64{
		first,
		last,
	})

	first, _ = f.take(furthest-1, 1)
	require.Equal(t, furthest, first)
	first, _ = f.take(0, 1)
	require.Equal(t, furthest+1, first, "not stored any more")
	wall = wall.Add(1)
	first, _ = f.take(0, 1)
	require.Equal(t, furthest+1, first)
}

// The goal: where the wall clock was wrong, and is set back, the clock does not stay behind there,
// nor at the highest number there is.
func TestAWallClockThatIsMended(t *testing.T) {
	wall := time.UnixMicro(1 << 54)
	f := fences{wall: func() time.Time { return wall }, lead: 15_000_000}
	for range 3 {
		first, last := f.take(0, 1+maxHandoffs)
		require.Equal(t, []int64{multiplex.MaxFence, multiplex.MaxFence}, []int64{first, last})
	}
	for _, year := range []int64{100, 0} {
		wall = time.UnixMicro(1<<50 + year*366*24*time.Hour.Microseconds())
		for i := range int64(3) {
			first, last := f.take(0, 1)
			require.Equal(t, []int64{wall.UnixMicro() + i, wall.UnixMicro() + i}, []int64{
				first,
				last,
			})
		}
	}
}

// The goal: what is reserved leads the clock ahead of the wall clock by no more than its bound, and
// then each gets one number still.
func TestReservedFencesAreBounded(t *testing.T) {
	wall := time.UnixMicro(1_000_000)
	f := fences{wall: func() time.Time { return wall }, lead: 100_000}
	first, last := f.take(0, 1001)
	require.Equal(t, int64(1001), last-first+1)
	end := last
	for range 10_000 {
		first, last = f.take(0, 1001)
		require.Equal(t, end+1, first)
		require.LessOrEqual(t, last, max(first, wall.UnixMicro()+f.lead))
		end = last
	}
	require.Equal(t, first, last)
	wall = wall.Add(time.Second)
	first, last = f.take(0, 1001)
	require.Equal(t, int64(1001), last-first+1)
}

// The goal: a client leads its wall clock by a quarter of MaxTTL, but by a minute at most:
// companions expire after a day, however long leases last.
func TestTheLeadIsAMinuteAtMost(t *testing.T) {
	for maxTTL, lead := range map[time.Duration]time.Duration{
		0:           2500 * time.Millisecond,
		time.Second: 250 * time.Millisecond, 200 * time.Hour: time.Minute,
	} {
		c, err := New(Config{Nodes: []string{"127.0.0.1:1"}, MaxTTL: maxTTL})
		require.NoError(t, err)
		require.Equal(t, lead.Microseconds(), c.fences.lead)
		require.NoError(t, c.Close(t.Context()))
	}
}

// The goal: no fence is too large for Lua to count in ones.
func TestFencesEndWhereLuaCannotCount(t *testing.T) {
	f := fences{wall: time.Now, lead: 1 << 60}
	for range 3 {
		first, last := f.take(multiplex.MaxFence-1, 1001)
		require.Equal(t, []int64{multiplex.MaxFence, multiplex.MaxFence}, []int64{first, last})
	}
}

// The goal: a call without fencing takes no more memory than if there were none.
func TestALeaseWithoutAFenceTakesTwoPiecesOfMemory(t *testing.T) {
	c, keys := new(Client), []string{"k"}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { c.newLease(keys, 0, 0) }), 2.0)
}

// seen has all nodes remember a fence of x.
func seen(t *testing.T, nodes *lockpipetest.Nodes, number int64) {
	for i := range nodes.URLs() {
		_, err := nodes.Do(i, "SET", companionOfX, strconv.FormatInt(number, 10))
		require.NoError(t, err)
	}
}

const companionOfX = "lockpipe:fence:x"

// The goal: a fence that was too low is no lost race, no attempt that counts, and no reason for a
// delay or another arbiter. But the arbiter may still have what it granted then, and alone
// it must not refuse the next attempt for that.
func TestAStaleAnswerIsNoLostRace(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	ahead := c.fences.wall().Add(time.Hour).UnixMicro()
	seen(t, nodes, ahead)
	keys, o, err := c.validateCall(context.Background(), callWait, []string{"x"},
		[]Option{WithFencing()})
	require.NoError(t, err)
	s := newWaitingCall(c, keys, o)
	require.True(t, c.queue.Enter(&s.waiter, s.queueKey[:], maxPending))
	arbiter := c.mux.Arbiter("x", 0)
	// As where it was held before,.
	s.arbiter, s.blockedKey, s.pushEnabled = arbiter, "x", true
	s.askAllAt = time.Now().Add(time.Hour)
	// And is given back now.
	s.lastHint = time.Now()

	_, stale, _ := s.next()
	require.False(t, stale.askedAll, "the arbiter is asked first")
	l, pause, err := s.attemptDone(t.Context(), stale, stale.attempt.Wait(t.Context(), time.Time{}))
	require.Nil(t, l)
	require.NoError(t, err)
	require.Zero(t, pause)
	require.Equal(t, []int{0, 0, 0, arbiter}, []int{
		s.lostRaces, s.attempts, s.futileTries, s.arbiter,
	})

	g := fenceRetry{}
	for range 2 {
		for range maxFenceRetries {
			again, wait := g.next(stale.attempt)
			require.True(t, again && !wait)
		}
		again, _ := g.next(stale.attempt)
		require.False(t, again, "a call does not hurry for ever after clocks that run faster")
	}
	require.Equal(t, ahead, g.floor)
	g.floor = ahead + 1
	_, _ = g.next(stale.attempt)
	require.Equal(t, ahead+1, g.floor, "and never goes back")

	_, next, _ := s.next()
	require.NotNil(t, next.attempt, "at once")
	require.True(t, next.askedAll)
	l, _, err = s.attemptDone(t.Context(), next, next.attempt.Wait(t.Context(), time.Time{}))
	require.NoError(t, err)
	require.Greater(t, l.Fence(), ahead)
	s.leave(l)
	require.NoError(t, l.Release(t.Context()))
}

// overWhen is a context that ends when something is so.
type overWhen struct {
	context.Context
	over func() bool
}

func (c overWhen) Err() error {
	if c.over() {
		return context.Canceled
	}
	return nil
}

// The goal: where a call ends after an answer that its fence is too low, the reason is that, and
// not that the keys were held.
func TestACallThatEndsAfterAStaleAnswerWasNotHeld(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	seen(t, nodes, c.fences.wall().Add(time.Hour).UnixMicro())
	ctx := overWhen{context.Background(), func() bool {
		c.asyncs.mu.Lock()
		defer c.asyncs.mu.Unlock()
		for a := range c.asyncs.pending {
			return a.fenceRetry.attempts > 0
		}
		return false
	}}
	done := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(ctx, []string{"x"}, func(_ *Lease, err error) { done <- err },
		WithFencing()))
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.NotErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, "was granted before")
}

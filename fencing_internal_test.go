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

// The goal: the clock follows the wall clock, and is above all that it has proposed or seen where that stands or goes back.
func TestFencesRiseWithTheWallClockAndWithout(t *testing.T) {
	wall := time.UnixMicro(5000)
	f := fences{wall: func() time.Time { return wall }}
	take := func(most, wantFirst, wantLast int64) {
		t.Helper()
		first, last := f.take(most)
		require.Equal(t, []int64{wantFirst, wantLast}, []int64{first, last})
	}
	take(1, 5000, 5000)
	take(1, 5001, 5001)
	wall = time.UnixMicro(4000)
	take(1, 5002, 5002)
	f.see(7000)
	f.see(6000)
	take(1, 7001, 7001)
	wall = time.UnixMicro(8000)
	take(1, 8000, 8000)
	wall = time.UnixMicro(-1)
	take(1, 8001, 8001)
}

// The goal: what is reserved leads the clock ahead of the wall clock by no more than its bound, and then each gets one number still.
func TestReservedFencesAreBounded(t *testing.T) {
	wall := time.UnixMicro(1_000_000)
	f := fences{wall: func() time.Time { return wall }, lead: 100_000}
	first, last := f.take(1001)
	require.Equal(t, int64(1001), last-first+1)
	end := last
	for range 10_000 {
		first, last = f.take(1001)
		require.Equal(t, end+1, first)
		require.LessOrEqual(t, last, max(first, wall.UnixMicro()+f.lead))
		end = last
	}
	require.Equal(t, first, last)
	wall = wall.Add(time.Second)
	first, last = f.take(1001)
	require.Equal(t, int64(1001), last-first+1)
}

// The goal: no fence is too large for Lua to count in ones.
func TestFencesEndWhereLuaCannotCount(t *testing.T) {
	f := fences{wall: time.Now, lead: 1 << 60}
	f.see(multiplex.MaxFence - 1)
	for range 3 {
		first, last := f.take(1001)
		require.Equal(t, []int64{multiplex.MaxFence, multiplex.MaxFence}, []int64{first, last})
	}
}

// The goal: a call without fencing takes no more memory than if there were none.
func TestALeaseWithoutAFenceTakesTwoPiecesOfMemory(t *testing.T) {
	c, keys := new(Client), []string{"k"}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { c.newLease(keys, 0) }), 2.0)
}

// seen has all nodes remember a fence of x.
func seen(t *testing.T, nodes *lockpipetest.Nodes, number int64) {
	for i := range nodes.URLs() {
		_, err := nodes.Do(i, "SET", companionOfX, strconv.FormatInt(number, 10))
		require.NoError(t, err)
	}
}

const companionOfX = "lockpipe:fence:x"

// The goal: a fence that was too low is no rival that was quicker, no attempt that counts, and no reason for a pause or another judge.
func TestAStaleAnswerIsNoRival(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	ahead := c.fences.wall().Add(time.Hour).UnixMicro()
	seen(t, nodes, ahead)
	keys, o, err := c.prepare([]string{"x"}, []Option{WithFencing()})
	require.NoError(t, err)
	s := newSeeker(c, keys, o)
	require.True(t, c.rooms.Enter(&s.waiter, s.room[:], maxPending))
	judge := c.mux.Judge("x", 0)
	s.judge, s.blocked, s.allAt, s.told, s.again = judge, "x", time.Now().Add(time.Hour), true, true // as where it was held before

	_, stale, _ := s.begin()
	require.False(t, stale.all, "the judge is asked first")
	l, pause, err := s.end(t.Context(), stale, stale.attempt.Wait(t.Context(), time.Time{}))
	require.Nil(t, l)
	require.NoError(t, err)
	require.Zero(t, pause)
	require.Equal(t, []int{0, 0, 0, judge}, []int{s.lost, s.attempts, s.vain, s.judge})

	_, next, _ := s.begin()
	require.NotNil(t, next.attempt, "at once")
	l, _, err = s.end(t.Context(), next, next.attempt.Wait(t.Context(), time.Time{}))
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

// The goal: where a call ends after an answer that its fence is too low, the reason is that, and not that the keys were held.
func TestACallThatEndsAfterAStaleAnswerWasNotHeld(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	seen(t, nodes, multiplex.MaxFence)
	ctx := overWhen{context.Background(), func() bool { return c.fences.last.Load() == multiplex.MaxFence }}
	told := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(ctx, []string{"x"}, func(_ *Lease, err error) { told <- err }, WithFencing()))
	err := <-told
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.NotErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, "was granted before")
}

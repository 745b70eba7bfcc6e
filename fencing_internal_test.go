package lockpipe

import (
	"testing"
	"time"

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

package ids

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// highest is the highest number in these tests: the largest integer that Lua counts in ones.
	highest = 1<<53 - 1
	// most is how many numbers a lease asks for that may be handed off.
	most = 1001
)

// newClock returns a clock whose wall clock is *wall, of a client whose reserved numbers may lead
// by so much.
func newClock(wall *time.Time, lead time.Duration) *FenceClock {
	return NewFenceClock(func() time.Time { return *wall }, leadFraction*lead)
}

// requireNumbers checks what the clock proposes next.
func requireNumbers(t *testing.T, c *FenceClock, floor, most, wantFirst, wantLast int64) {
	t.Helper()
	first, last := c.Reserve(floor, most)
	require.Equal(t, []int64{wantFirst, wantLast}, []int64{first, last})
}

// The goal: the clock follows the wall clock. If that stops or goes back, the clock is above all
// that it has proposed, and above what a call has seen.
func TestClock_RisesWithTheWallClockAndWithout(t *testing.T) {
	wall := time.UnixMicro(5000)
	c := newClock(&wall, 0)
	requireNumbers(t, c, 0, 1, 5000, 5000)
	requireNumbers(t, c, 0, 1, 5001, 5001)
	wall = time.UnixMicro(4000)
	requireNumbers(t, c, 0, 1, 5002, 5002)
	requireNumbers(t, c, 7000, 1, 7001, 7001)
	requireNumbers(t, c, 6000, 1, 7002, 7002)
	wall = time.UnixMicro(8000)
	requireNumbers(t, c, 0, 1, 8000, 8000)
	wall = time.UnixMicro(-1)
	requireNumbers(t, c, 0, 1, 8001, 8001)
}

// The goal: a floor beyond ten minutes ahead of the wall clock is topped for its call alone. Up to
// there all further numbers are above it.
func TestClock_DoesNotFollowAFloorFarAhead(t *testing.T) {
	wall := time.UnixMicro(1 << 50)
	c := newClock(&wall, 15*time.Second)
	furthest := wall.Add(10 * time.Minute).UnixMicro() // as docs/fencing.md says
	for _, floor := range []int64{
		furthest, furthest + 1, wall.Add(time.Hour).UnixMicro(), 1 << 52, highest - 1,
	} {
		requireNumbers(t, c, floor, most, floor+1, floor+1)
	}
	now := wall.UnixMicro()
	requireNumbers(t, c, 0, most, now, now+most-1)
	requireNumbers(t, c, furthest-1, 1, furthest, furthest)
	requireNumbers(t, c, 0, 1, furthest+1, furthest+1) // which the clock does not keep any more
	wall = wall.Add(1)
	requireNumbers(t, c, 0, 1, furthest+1, furthest+1)
}

// The goal: if the wall clock was wrong and is set back, the clock stays neither there nor at the
// highest number there is.
func TestClock_FollowsAWallClockThatIsSetBack(t *testing.T) {
	wall := time.UnixMicro(1 << 54)
	c := newClock(&wall, 15*time.Second)
	for range 3 {
		requireNumbers(t, c, 0, most, highest, highest)
	}
	for _, year := range []int64{100, 0} {
		wall = time.UnixMicro(1<<50 + year*366*24*time.Hour.Microseconds())
		for i := range int64(3) {
			requireNumbers(t, c, 0, 1, wall.UnixMicro()+i, wall.UnixMicro()+i)
		}
	}
}

// The goal: reserved numbers lead the clock ahead of the wall clock by no more than its bound. Then
// each lease still gets one number.
func TestClock_BoundsReservedNumbers(t *testing.T) {
	const lead = 100 * time.Millisecond
	wall := time.UnixMicro(1_000_000)
	c := newClock(&wall, lead)
	first, last := c.Reserve(0, most)
	require.EqualValues(t, most, last-first+1)
	end := last
	for range 10_000 {
		first, last = c.Reserve(0, most)
		require.Equal(t, end+1, first)
		require.LessOrEqual(t, last, max(first, wall.Add(lead).UnixMicro()))
		end = last
	}
	require.Equal(t, first, last)
	wall = wall.Add(time.Second)
	first, last = c.Reserve(0, most)
	require.EqualValues(t, most, last-first+1)
}

// The goal: a clock leads its wall clock by a quarter of MaxTTL, but by a minute at most: fence
// keys expire after a day, however long leases last.
func TestClock_LeadsByAMinuteAtMost(t *testing.T) {
	for maxTTL, lead := range map[time.Duration]time.Duration{
		10 * time.Second: 2500 * time.Millisecond,
		time.Second:      250 * time.Millisecond,
		200 * time.Hour:  time.Minute,
	} {
		require.Equal(t, lead.Microseconds(), NewFenceClock(time.Now, maxTTL).maxLead)
	}
}

// The goal: no fence is too large for Lua to count in ones.
func TestClock_EndsAtTheHighestNumber(t *testing.T) {
	wall := time.Now()
	c := newClock(&wall, time.Hour)
	for range 3 {
		requireNumbers(t, c, highest-1, most, highest, highest)
	}
}

package series

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireGapless requires that the intervals of a Series follow each other to the end of the run,
// and returns the sum of their counts and calls.
func requireGapless(t *testing.T, s *Series, duration time.Duration) (sum Tally, calls uint64) {
	t.Helper()
	require.NotEmpty(t, s.Intervals)
	require.LessOrEqual(t, len(s.Intervals), maxIntervals)
	end := 0.0
	for _, i := range s.Intervals {
		require.InDelta(t, end, i.AtS, 1e-6)
		require.LessOrEqual(t, i.LengthS, 1.5*s.StepS+1e-6)
		sum.Add(i.Tally)
		calls += i.AcquireMs.Calls
		end = i.AtS + i.LengthS
	}
	require.InDelta(t, duration.Seconds(), end, 1e-6)
	return sum, calls
}

// Goal: a run of any length has at most maxIntervals. Merged intervals lose nothing, and each count
// stays at its time.
func TestBuilder_ALongRunIsBounded(t *testing.T) {
	for _, duration := range []time.Duration{
		0, time.Millisecond, 24 * time.Second, 24*time.Second + 1, time.Minute, time.Hour,
		100 * time.Hour, 1001 * time.Hour,
	} {
		const calls = 10_000
		b, total := NewBuilder(), Tally{}
		one := b.NewRecorder(func() Tally { return total })
		for n := range calls {
			one.Roll(b.start.Add(duration / calls * time.Duration(n)))
			total.Acquired++
			total.Released++
			one.Acquire(time.Duration(n) * time.Microsecond)
			require.LessOrEqual(t, len(b.intervals), maxIntervals)
		}
		one.Commit()
		s := b.Series(duration)
		sum, recorded := requireGapless(t, s, duration)
		require.Equal(t, Tally{Acquired: calls, Released: calls}, sum)
		require.EqualValues(t, calls, recorded)
		inBuckets := uint64(0)
		for _, b := range s.AcquireHistogram {
			inBuckets += b.Calls
		}
		require.EqualValues(t, calls, inBuckets)
		if duration <= time.Second {
			continue
		}
		require.Greater(t, len(s.Intervals), maxIntervals/7, "enough to be worth a look, %v",
			duration)
		even := calls * s.StepS / duration.Seconds()
		for _, i := range s.Intervals[:len(s.Intervals)-1] {
			require.InDelta(t, even, i.Acquired, 2+even/50)
		}
	}
}

// Goal: what is polled after the end belongs to the last interval.
func TestBuilder_NothingIsAfterTheEnd(t *testing.T) {
	b := NewBuilder()
	b.addSnapshot(550*time.Millisecond, snapshot{extended: 7}, snapshot{})
	s := b.Series(380 * time.Millisecond)
	sum, _ := requireGapless(t, s, 380*time.Millisecond)
	require.EqualValues(t, 7, sum.Extended)
	require.Len(t, s.Intervals, 4)
}

// Goal: callers that record at the same time lose nothing.
func TestRecorder_CallersMeetInTheBuilder(t *testing.T) {
	const callers, calls = 8, 1000
	b := NewBuilder()
	var done atomic.Int64
	ended := make(chan struct{}, callers)
	for range callers {
		go func() {
			var total Tally
			r := b.NewRecorder(func() Tally { return total })
			for range calls {
				r.Roll(b.start.Add(time.Duration(done.Add(1)) * 10 * time.Millisecond))
				total.Acquired++
				r.Acquire(time.Millisecond)
				r.Wait(time.Millisecond)
				r.Release(time.Millisecond)
			}
			r.Commit()
			ended <- struct{}{}
		}()
	}
	for range callers {
		<-ended
	}
	duration := callers * calls * 10 * time.Millisecond
	sum, recorded := requireGapless(t, b.Series(duration), duration)
	require.Equal(t, Tally{Acquired: callers * calls}, sum)
	require.EqualValues(t, callers*calls, recorded)
}

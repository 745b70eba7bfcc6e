package lockpipe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// contender is a process that contends, in a simulation.
type contender struct {
	known contentionState
	since time.Duration // when its wait began
	lost  int
	locks int
	tries int
}

// contend lets n processes with nothing else to do acquire the keys, for so many holds of a
// millisecond and half of one in between. At each release one of those whose backoff is over gets
// the keys, and the others try unsuccessfully. If there is none, the first whose backoff ends gets
// them.
func contend(n, holds int, backsOff bool) (all []contender, idle time.Duration) {
	const hold, gap = time.Millisecond, 500 * time.Microsecond
	random := rand.New(rand.NewPCG(uint64(n), 1))
	all = make([]contender, n)
	start := time.Now()
	now := time.Duration(0)
	for range holds {
		var active []*contender
		next := &all[0]
		for i := range all {
			c := &all[i]
			if !backsOff {
				c.known.backoff = 0
			}
			if c.since+c.known.backoff <= now {
				active = append(active, c)
			}
			if c.since+c.known.backoff < next.since+next.known.backoff {
				next = c
			}
		}
		free := len(active) == 0
		if free {
			idle += next.since + next.known.backoff - now
			now = next.since + next.known.backoff
			active = []*contender{next}
		}
		winner := active[random.IntN(len(active))]
		for _, c := range active {
			c.tries++
			c.lost++
		}
		now += gap
		var contended bool
		winner.known, contended = winner.known.next(contendedAcquire{
			"k", now - winner.since,
			winner.known.backoff, winner.lost - 1, free,
		}, start.Add(now))
		if !contended {
			winner.known = contentionState{}
		}
		now += hold
		winner.since, winner.lost = now, 0
		winner.locks++
	}
	return all, idle
}

// The goal: of many processes that want the same keys all the time, few try at each release, each
// gets its share, and the keys are seldom left unused for that.
func TestContention_CallersBackOffUntilTheyHaveWaitedLongest(t *testing.T) {
	for _, n := range []int{2, 4, 8, 16, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			const holds = 5000
			all, idle := contend(n, holds, true)
			tries, least := 0, holds
			for _, c := range all {
				tries += c.tries
				least = min(least, c.locks)
			}
			require.Less(t, float64(tries)/holds, 1.5+0.25*float64(n), "tries for each lock")
			require.Greater(t, least, holds/n/2, "the least share")
			require.Less(t, idle, holds*time.Millisecond*3/4)
			all, _ = contend(n, holds, false)
			before := 0
			for _, c := range all {
				before += c.tries
			}
			require.Greater(t, before, holds*(n-1), "without a backoff every process that "+
				"waits tries each time")
		})
	}
}

// The goal: if the others are gone, that is noticed after few holds, and a backoff is never long.
func TestContention_BackoffsEndWithIt(t *testing.T) {
	now := time.Now()
	known, contended := contentionState{}.next(contendedAcquire{
		key: "k", took: time.Hour, lostRaces: 3,
	}, now)
	require.True(t, contended)
	require.Equal(t, maxBackoff, known.backoff)
	waste, holds := time.Duration(0), 0
	for contended {
		waste += known.backoff
		known, contended = known.next(contendedAcquire{
			key: "k", took: known.backoff + time.Millisecond,
			backoff: known.backoff, wasFree: true,
		}, now)
		holds++
	}
	require.Equal(t, maxFreeStreak, holds)
	require.Less(t, waste, 5*maxBackoff)
}

// The goal: what is remembered of contention is forgotten in time, and bounded.
func TestContention_IsForgotten(t *testing.T) {
	var r contention
	r.record("key", contendedAcquire{took: time.Second})
	require.False(t, r.any.Load(), "no other process held a key")
	for i := range 3 * maxTracked {
		r.record(fmt.Sprint(i), contendedAcquire{key: "k", took: time.Second, lostRaces: 1})
		require.LessOrEqual(t, len(r.byQueueKey), maxTracked)
	}
	last := fmt.Sprint(3*maxTracked - 1)
	require.Equal(t, maxBackoff, r.lookup(last).backoff)
	old := r.byQueueKey[last]
	old.updated = old.updated.Add(-contentionTTL - time.Millisecond)
	r.byQueueKey[last] = old
	require.Zero(t, r.lookup(last))
}

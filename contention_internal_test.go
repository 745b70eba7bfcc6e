package lockpipe

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
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

// The goal: a caller notices after few holds that the others are gone, and a backoff is never long.
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

// connectedTo returns a client of the nodes that is connected to all of them.
func connectedTo(t *testing.T, nodes *lockpipetest.Nodes) *Client {
	t.Helper()
	c, err := New(Config{
		Nodes: nodes.URLs(), NodeTimeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	const patient = 20 * time.Second
	up := 0
	for end := time.Now().Add(patient); up < nodes.Len(); time.Sleep(10 * time.Millisecond) {
		up = 0
		for _, n := range c.Nodes() {
			if n.State == NodeUp {
				up++
			}
			// If the machine stops it in the first use for a second, it is quarantined for MaxTTL.
			if n.State == NodeQuarantined && n.Until.Add(patient).After(end) {
				end = n.Until.Add(patient)
			}
		}
		require.True(t, time.Now().Before(end), "a node does not come up: %+v", c.Nodes())
	}
	return c
}

// The goal: an arbiter that always reports something new does not keep a caller from keys that the
// other nodes would grant. Here a holder that only the arbiter knows keeps renewing its key there.
func TestContention_ABusyArbiterDoesNotHideFreeKeys(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	arbiter := c.mux.Arbiter("k", 0)
	set := func(i int) {
		if _, err := nodes.Do(i, "SET", "k", "another", "PX", "50000"); err != nil {
			t.Error(err)
		}
	}
	for i := range 3 {
		set(i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for ctx.Err() == nil {
			set(arbiter)
			time.Sleep(5 * time.Millisecond)
		}
	})
	held := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(ctx, []string{"k"}, func(_ *Lease,
		err error,
	) {
		held <- err
	}))
	for i := range 3 {
		if i != arbiter {
			_, err := nodes.Do(i, "DEL", "k")
			require.NoError(t, err)
		}
	}
	require.NoError(t, <-held)
	cancel()
	renewing.Wait()
}

// The goal: calls with a limit of attempts do not queue, and record no contention. They have no
// queue key, so what one of them met for its keys another would apply to other keys.
func TestContention_CallsThatDoNotQueueRecordNone(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c, rival := connectedTo(t, nodes), connectedTo(t, nodes)
	for range 5 {
		require.False(t, meets(t, c, rival, nodes, WithMaxAttempts(1<<20)))
	}
	require.Eventually(t, func() bool { return meets(t, c, rival, nodes) }, 20*time.Second,
		time.Millisecond, "no contention is recorded")
}

// meets has c wait for a key that the rival holds. In most cases a node notifies c that it is free.
// meets reports whether c recorded the contention.
func meets(t *testing.T, c, rival *Client, nodes *lockpipetest.Nodes, opts ...Option) bool {
	held, err := rival.Acquire(t.Context(), "x")
	require.NoError(t, err)
	got := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(t.Context(), []string{"x"}, func(l *Lease, err error) {
		if err == nil {
			err = l.Release(t.Context())
		}
		got <- err
	}, opts...))
	arbiter := c.mux.Arbiter("x", 0)
	for start := time.Now(); time.Since(start) < 20*time.Second; {
		info, err := nodes.Do(arbiter, "INFO", "stats")
		require.NoError(t, err)
		if text, _ := info.(string); strings.Contains(text, "tracking_total_keys:1") {
			break
		}
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, <-got)
	return c.contention.any.Load()
}

package leases

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: whatever comes at the same time as Keep, the keys either stay for their time or are
// released, as Keep says, and no waiting call hangs.
func TestKeep_AtTheSameTimeAsOtherCalls(t *testing.T) {
	t.Parallel()
	for range 4 {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3)
			v.Latency(2 * time.Millisecond)
			c := v.Client(t)
			for round := range 8 {
				atTheSameTimeAsKeep(t, v, c, fmt.Sprint("k", round))
			}
			time.Sleep(time.Minute)
			v.NothingLeft(t)
		})
	}
}

func atTheSameTimeAsKeep(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, key string) {
	t.Helper()
	opts := []lockpipe.Option{lockpipe.WithTTL(10 * time.Second)} // less than what is kept
	if rand.IntN(2) == 0 {
		opts = kit.Auto(150*time.Millisecond, time.Minute)
	}
	l := kit.Take(t, c, key, opts...)
	if rand.IntN(2) == 0 { // one that came by the queue
		next := kit.Queue(t, c, key, opts...)
		kit.Release(t, l)
		o := <-next
		require.NoError(t, o.Err)
		l = o.Lease
	}
	waiting := rand.IntN(3)
	ended := make(chan kit.Outcome, 2)
	for range waiting {
		one := kit.Queue(t, c, key)
		go func() { ended <- <-one }()
	}
	atSomeTime := func(f func() error) <-chan error {
		pause := rand.N(8 * time.Millisecond)
		return kit.Later(func() error {
			time.Sleep(pause)
			return f()
		})
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	const keep = 20 * time.Second
	kept := atSomeTime(func() error { return l.Keep(t.Context(), keep) })
	again := atSomeTime(func() error { return l.Keep(t.Context(), keep) })
	extended := atSomeTime(func() error { return l.Extend(t.Context(), time.Second) })
	released := atSomeTime(func() error { return l.Release(t.Context()) })
	err := <-kept
	err2 := <-again
	<-extended
	require.NoError(t, <-released)
	now := time.Now()
	if err == nil || err2 == nil {
		require.Equal(t, lockpipe.ErrKept, l.Err())
		require.NoError(t, errors.Join(err, err2), "both have waited for the same")
		synctest.Wait()
		for range 3 { // also after all that is late
			_, err := c.TryAcquire(t.Context(), key)
			require.ErrorIs(t, err, lockpipe.ErrHeld)
			synctest.Wait()
			require.Empty(t, ended, "calls that still wait")
			time.Sleep(5 * time.Second)
		}
	} else {
		require.Equal(t, lockpipe.ErrReleased, l.Err())
	}
	for range waiting { // in any order: they have contended, as with another process
		o := <-ended
		require.NoError(t, o.Err)
		require.Less(t, o.At.Sub(now), keep+time.Second)
		kit.Release(t, o.Lease)
	}
	require.True(t, kit.QueueIdle(c, key))
}

package lockpipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// wanted is a call that waits for keys; it waits already.
func wanted(t *testing.T, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan *lockpipe.Lease {
	t.Helper()
	got := later(func() *lockpipe.Lease {
		l, err := c.AcquireAll(t.Context(), keys, opts...)
		if err != nil {
			return nil
		}
		return l
	})
	synctest.Wait()
	return got
}

// The goal: a call that waits for a and b does not keep b, which is free, from the holder of a, who
// wants it too.
func TestWait_ASetDoesNotBlockTheHolderOfAPart(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		a := take(t, c, "a", lockpipe.WithAutoExtend(time.Hour))
		both := wanted(t, c, []string{"a", "b"})
		begin := time.Now()
		b := take(t, c, "b")
		require.Zero(t, time.Since(begin))
		require.NoError(t, c.ReleaseAll(t.Context(), a, b))
		l := <-both
		require.NotNil(t, l)
		require.NoError(t, l.Release(t.Context()))
		v.nothingLeft(t)
	})
}

// The goal: where the masters grant the keys to a waiter although another lease on them is being
// handed to it, they had lost that one: it is not passed on to the next.
func TestHandoff_NotOfALeaseThatTheMastersLost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		a := v.hold(t, c, "k")
		second := wanted(t, c, []string{"k"}, lockpipe.WithRetryDelay(100*time.Millisecond,
			100*time.Millisecond))
		third := wanted(t, c, []string{"k"})
		v.silence(0, 1, 2)
		time.Sleep(150 * time.Millisecond) // an attempt of the second hangs
		require.NoError(t, a.Release(t.Context()))
		for i := range 3 {
			v.del(i, "k")
		}
		v.speak(0, 1, 2)
		l := <-second
		require.NotNil(t, l)
		synctest.Wait()
		select {
		case <-third:
			require.Fail(t, "two hold it")
		default:
		}
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, (<-third).Release(t.Context()))
		v.nothingLeft(t)
	}, timeout(time.Second))
}

// The goal: a release within the process is acted on at once, however long the pauses between
// attempts are.
func TestWait_AReleaseInTheProcessWakesTheNext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		long := lockpipe.WithRetryDelay(40*time.Second, 40*time.Second)
		l := take(t, c, "k")
		// The nodes keep it for no longer than the lease, but it is not handed off.
		require.NoError(t, l.Extend(t.Context(), time.Second))
		next := wanted(t, c, []string{"k"}, long)
		begin := time.Now()
		require.NoError(t, l.Release(t.Context()))
		got := <-next
		require.NotNil(t, got)
		require.Less(t, time.Since(begin), time.Second)
		require.NoError(t, got.Release(t.Context()))
		v.nothingLeft(t)
	})
}

// The goal: a lease that can't be kept by the one to whom it was handed does not leave that one
// asleep.
func TestHandoff_AFailedOneWakesTheNext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		next := wanted(t, c, []string{"k"}, lockpipe.WithRetryDelay(40*time.Second, 40*time.Second))
		time.Sleep(30 * time.Second) // too little is left for the next one
		v.fail(0, outOfMemory)
		v.fail(1, outOfMemory)
		require.NoError(t, l.Release(t.Context()))
		synctest.Wait()
		v.heal(0, 1)
		got := <-next
		require.NotNil(t, got)
		require.NoError(t, got.Release(t.Context()))
		v.nothingLeft(t)
	})
}

// The goal: a limit of attempts bounds a call even if others wait. If ctx had ended before, the
// error says so.
func TestWait_ACallWithALimitDoesNotQueue(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := take(t, c, "k", lockpipe.WithAutoExtend(time.Hour))
		other := wanted(t, c, []string{"k"})
		begin := time.Now()
		_, err := c.Acquire(t.Context(), "k", lockpipe.WithMaxAttempts(1))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.Zero(t, time.Since(begin))
		_, err = c.Acquire(t.Context(), "k", lockpipe.WithMaxAttempts(3))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.Less(t, time.Since(begin), 2*time.Second)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Acquire(over, "k")
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, (<-other).Release(t.Context()))
		v.nothingLeft(t)
	})
}

// The goal: a lease that is handed over has its keys in the order of the call.
func TestHandoff_TheLeaseHasTheOrderOfTheCall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		turned := wanted(t, c, []string{"b", "a"})
		require.NoError(t, l.Release(t.Context()))
		got := <-turned
		require.Equal(t, []string{"b", "a"}, got.Keys())
		require.Equal(t, "b", got.Key())
		require.NoError(t, got.Release(t.Context()))
		v.nothingLeft(t)
	})
}

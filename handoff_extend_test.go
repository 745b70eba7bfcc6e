package lockpipe_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: who is handed a lease may rely on it no longer than the nodes had confirmed to the one
// before.
func TestHandoff_TheLeaseEndsWhenItWasConfirmedToEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		until := l.Until()
		next := queue(t, c, "k", lockpipe.WithTTL(10*time.Second))
		time.Sleep(2 * time.Second)
		before := c.Stats().Operations
		release(t, l)
		l = granted(t, next)
		require.Equal(t, until, l.Until())
		require.Equal(t, before, c.Stats().Operations)
		time.Sleep(time.Until(until) - 1)
		lasting(t, l)
		time.Sleep(time.Nanosecond)
		over(t, l, lockpipe.ErrExpired)
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
		v.nothingLeft(t)
	})
}

// The goal: who asked for a longer time than what is left holds nothing before the nodes have
// confirmed that time.
func TestHandoff_MoreTimeIsConfirmedByTheNodesFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(time.Second))
		next := queue(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.silence(0, 1, 2)
		release(t, l)
		over(t, l, lockpipe.ErrReleased)
		waits(t, next) // it holds nothing before the nodes have confirmed it
		sent := time.Now()
		time.Sleep(500 * time.Millisecond)
		waits(t, next)
		v.speak(0, 1, 2)
		l = granted(t, next)
		require.Equal(t, sent.Add(10*time.Second-100*time.Millisecond-2*time.Millisecond),
			l.Until())
		for i := range v.nodes {
			require.Equal(t, l.Token(), v.get(i, "k"))
			require.Equal(t, 10*time.Second, v.ttl(i, "k"))
		}
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: if the nodes do not answer until the time that was left is over, the call that wanted
// more is granted a lease later.
func TestHandoff_MoreTimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(time.Second))
		token := l.Token()
		next := queue(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.silence(0, 1, 2)
		release(t, l)
		time.Sleep(2 * time.Second)
		waits(t, next)
		v.speak(0, 1, 2)
		time.Sleep(time.Second)
		l = granted(t, next)
		require.NotEqual(t, token, l.Token())
		lasting(t, l)
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: who asked for a shorter time than what is left has no trip made, ends on time, and the
// keys do not stay for the time of the one before.
func TestHandoff_TheLeaseEndsOnTimeIfLessWasAskedFor(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]lockpipe.Option{
		{lockpipe.WithTTL(time.Second)},
		{lockpipe.WithTTL(time.Second), lockpipe.WithAutoExtend(988 * time.Millisecond)},
	} {
		inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			l := v.hold(t, c, "k")
			next := queue(t, c, "k", opts...)
			before := c.Stats().Operations
			release(t, l)
			l = granted(t, next)
			require.Equal(t, before, c.Stats().Operations)
			require.Equal(t, 988*time.Millisecond, time.Until(l.Until()))
			time.Sleep(time.Until(l.Until()) - 1)
			lasting(t, l)
			require.Equal(t, l.Token(), v.get(0, "k"))
			time.Sleep(time.Nanosecond)
			over(t, l, lockpipe.ErrExpired)
			v.nothingLeft(t)
		})
	}
}

// The goal: if a call asks for automatic extension, the lease that is handed to it is extended, up
// to the maxHold of that call.
func TestHandoff_TheLeaseIsExtendedAutomatically(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(time.Second))
		next := queue(t, c, "k", lockpipe.WithTTL(time.Second),
			lockpipe.WithAutoExtend(10*time.Second))
		release(t, l)
		handed := time.Now()
		l = granted(t, next)
		for range 99 {
			time.Sleep(100 * time.Millisecond)
			lasting(t, l)
			require.False(t, l.Until().After(handed.Add(10*time.Second)))
			require.Equal(t, l.Token(), v.get(0, "k"))
		}
		<-l.Done()
		require.Equal(t, 10*time.Second, time.Since(handed))
		over(t, l, lockpipe.ErrExpired)
		v.nothingLeft(t)
	})
}

// The goal: a lease is not handed off while an extension of it is under way, by the holder or
// automatic. It is released, and what the extension does to the nodes leaves nothing behind.
func TestHandoff_NotWhileTheLeaseIsBeingExtended(t *testing.T) {
	t.Parallel()
	for _, automatic := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			l, next := behindAnother(t, c, "k", lockpipe.WithTTL(10*time.Second),
				lockpipe.WithAutoExtend(time.Hour))
			token := l.Token()
			v.silence(0, 1, 2)
			extended := make(chan error, 1)
			if automatic {
				time.Sleep(6700 * time.Millisecond)
				extended <- lockpipe.ErrReleased
			} else {
				go func() { extended <- l.Extend(t.Context(), 20*time.Second) }()
			}
			synctest.Wait()
			require.Positive(t, v.hanging(0))
			released := later(func() error { return l.Release(t.Context()) })
			synctest.Wait()
			over(t, l, lockpipe.ErrReleased)
			waits(t, next)
			v.speak(0, 1, 2)
			require.NoError(t, <-released)
			require.ErrorIs(t, <-extended, lockpipe.ErrReleased)
			l = granted(t, next)
			require.NotEqual(t, token, l.Token())
			release(t, l)
			v.nothingLeft(t)
		})
	}
}

// The goal: a lease that can't be kept by the one to whom it was handed does not leave that one
// asleep.
func TestHandoff_AFailedOneWakesTheNext(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
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

// The goal: Close takes back what is on its way to a caller who wanted more time, while nodes hang.
func TestHandoff_CloseWhileTheNextCallAsksForMoreTime(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(5*time.Second))
		first, second := queue(t, c, "k"), queue(t, c, "k")
		v.silence(0, 1, 2)
		release(t, l)
		synctest.Wait()
		require.Positive(t, v.hanging(0))
		closed := later(func() error { return c.Close(t.Context()) })
		time.Sleep(100 * time.Millisecond)
		require.ErrorIs(t, (<-second).err, lockpipe.ErrClosed)
		v.speak(0, 1, 2)
		require.ErrorIs(t, (<-first).err, lockpipe.ErrClosed)
		require.NoError(t, <-closed)
		v.nothingLeft(t)
	})
}

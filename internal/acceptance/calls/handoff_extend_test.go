package calls

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: who is handed a lease may rely on it no longer than the nodes had confirmed to the one
// before.
func TestHandoff_TheLeaseEndsWhenItWasConfirmedToEnd(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		until := l.Until()
		next := kit.Queue(t, c, "k", lockpipe.WithTTL(10*time.Second))
		time.Sleep(2 * time.Second)
		before := c.Stats().Operations
		kit.Release(t, l)
		l = kit.Granted(t, next)
		require.Equal(t, until, l.Until())
		require.Equal(t, before, c.Stats().Operations)
		time.Sleep(time.Until(until) - 1)
		kit.Lasting(t, l)
		time.Sleep(time.Nanosecond)
		kit.Over(t, l, lockpipe.ErrExpired)
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
		v.NothingLeft(t)
	})
}

// The goal: who asked for a longer time than what is left holds nothing before the nodes have
// confirmed that time.
func TestHandoff_MoreTimeIsConfirmedByTheNodesFirst(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(time.Second))
		next := kit.Queue(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.Silence(0, 1, 2)
		kit.Release(t, l)
		kit.Over(t, l, lockpipe.ErrReleased)
		kit.Waits(t, next) // it holds nothing before the nodes have confirmed it
		sent := time.Now()
		time.Sleep(500 * time.Millisecond)
		kit.Waits(t, next)
		v.Speak(0, 1, 2)
		l = kit.Granted(t, next)
		require.Equal(t, sent.Add(10*time.Second-100*time.Millisecond-2*time.Millisecond),
			l.Until())
		for i := range v.Nodes {
			require.Equal(t, l.Token(), v.Get(i, "k"))
			require.Equal(t, 10*time.Second, v.Ttl(i, "k"))
		}
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: if the nodes do not answer until the time that was left is over, the call that wanted
// more is granted a lease later.
func TestHandoff_MoreTimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(time.Second))
		token := l.Token()
		next := kit.Queue(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.Silence(0, 1, 2)
		kit.Release(t, l)
		time.Sleep(2 * time.Second)
		kit.Waits(t, next)
		v.Speak(0, 1, 2)
		time.Sleep(time.Second)
		l = kit.Granted(t, next)
		require.NotEqual(t, token, l.Token())
		kit.Lasting(t, l)
		kit.Release(t, l)
		v.NothingLeft(t)
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
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			l := v.Hold(t, c, "k")
			next := kit.Queue(t, c, "k", opts...)
			before := c.Stats().Operations
			kit.Release(t, l)
			l = kit.Granted(t, next)
			require.Equal(t, before, c.Stats().Operations)
			require.Equal(t, 988*time.Millisecond, time.Until(l.Until()))
			time.Sleep(time.Until(l.Until()) - 1)
			kit.Lasting(t, l)
			require.Equal(t, l.Token(), v.Get(0, "k"))
			time.Sleep(time.Nanosecond)
			kit.Over(t, l, lockpipe.ErrExpired)
			v.NothingLeft(t)
		})
	}
}

// The goal: if a call asks for automatic extension, the lease that is handed to it is extended, up
// to the maxHold of that call.
func TestHandoff_TheLeaseIsExtendedAutomatically(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(time.Second))
		next := kit.Queue(t, c, "k", lockpipe.WithTTL(time.Second),
			lockpipe.WithAutoExtend(10*time.Second))
		kit.Release(t, l)
		handed := time.Now()
		l = kit.Granted(t, next)
		for range 99 {
			time.Sleep(100 * time.Millisecond)
			kit.Lasting(t, l)
			require.False(t, l.Until().After(handed.Add(10*time.Second)))
			require.Equal(t, l.Token(), v.Get(0, "k"))
		}
		<-l.Done()
		require.Equal(t, 10*time.Second, time.Since(handed))
		kit.Over(t, l, lockpipe.ErrExpired)
		v.NothingLeft(t)
	})
}

// The goal: a lease is not handed off while an extension of it is under way, by the holder or
// automatic. It is released, and what the extension does to the nodes leaves nothing behind.
func TestHandoff_NotWhileTheLeaseIsBeingExtended(t *testing.T) {
	t.Parallel()
	for _, automatic := range []bool{false, true} {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			l, next := kit.BehindAnother(t, c, "k", lockpipe.WithTTL(10*time.Second),
				lockpipe.WithAutoExtend(time.Hour))
			token := l.Token()
			v.Silence(0, 1, 2)
			extended := make(chan error, 1)
			if automatic {
				time.Sleep(6700 * time.Millisecond)
				extended <- lockpipe.ErrReleased
			} else {
				go func() { extended <- l.Extend(t.Context(), 20*time.Second) }()
			}
			synctest.Wait()
			require.Positive(t, v.Hanging(0))
			released := kit.Later(func() error { return l.Release(t.Context()) })
			synctest.Wait()
			kit.Over(t, l, lockpipe.ErrReleased)
			kit.Waits(t, next)
			v.Speak(0, 1, 2)
			require.NoError(t, <-released)
			require.ErrorIs(t, <-extended, lockpipe.ErrReleased)
			l = kit.Granted(t, next)
			require.NotEqual(t, token, l.Token())
			kit.Release(t, l)
			v.NothingLeft(t)
		})
	}
}

// The goal: a lease that can't be kept by the one to whom it was handed does not leave that one
// asleep.
func TestHandoff_AFailedOneWakesTheNext(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		next := kit.Wanted(t, c, []string{"k"},
			lockpipe.WithRetryDelay(40*time.Second, 40*time.Second))
		time.Sleep(30 * time.Second) // too little is left for the next one
		v.Fail(0, kit.OutOfMemory)
		v.Fail(1, kit.OutOfMemory)
		require.NoError(t, l.Release(t.Context()))
		synctest.Wait()
		v.Heal(0, 1)
		got := <-next
		require.NotNil(t, got)
		require.NoError(t, got.Release(t.Context()))
		v.NothingLeft(t)
	})
}

// The goal: Close takes back what is on its way to a caller who wanted more time, while nodes hang.
func TestHandoff_CloseWhileTheNextCallAsksForMoreTime(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(5*time.Second))
		first, second := kit.Queue(t, c, "k"), kit.Queue(t, c, "k")
		v.Silence(0, 1, 2)
		kit.Release(t, l)
		synctest.Wait()
		require.Positive(t, v.Hanging(0))
		closed := kit.Later(func() error { return c.Close(t.Context()) })
		time.Sleep(100 * time.Millisecond)
		require.ErrorIs(t, (<-second).Err, lockpipe.ErrClosed)
		v.Speak(0, 1, 2)
		require.ErrorIs(t, (<-first).Err, lockpipe.ErrClosed)
		require.NoError(t, <-closed)
		v.NothingLeft(t)
	})
}

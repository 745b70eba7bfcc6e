package lockpipe_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// outcome is how a waiting call ended, and when.
type outcome struct {
	lease *lockpipe.Lease
	err   error
	at    time.Time
}

// queueFor starts a call that waits for the keys, and returns when it waits.
func queueFor(ctx context.Context, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) <-chan outcome {
	ended := later(func() outcome {
		l, err := c.AcquireAll(ctx, keys, opts...)
		return outcome{l, err, time.Now()}
	})
	synctest.Wait()
	return ended
}

// queue is queueFor for one key.
func queue(t *testing.T, c *lockpipe.Client, key string, opts ...lockpipe.Option) <-chan outcome {
	t.Helper()
	return queueFor(t.Context(), c, []string{key}, opts...)
}

// granted wants the call to have got its lease by now.
func granted(t *testing.T, ended <-chan outcome) *lockpipe.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-ended:
		require.NoError(t, o.err)
		return o.lease
	default:
		require.Fail(t, "it still waits")
	}
	panic("unreachable")
}

// waits wants the call to wait still.
func waits(t *testing.T, ended <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-ended:
		require.Fail(t, "it does not wait any more", "%v", o.err)
	default:
	}
}

// behindAnother returns a lease of the key that was granted by the nodes to a caller of the queue,
// and a call that waits behind it and has never asked the nodes: it knows until when the keys
// are held.
func behindAnother(t *testing.T, c *lockpipe.Client, key string,
	opts ...lockpipe.Option,
) (*lockpipe.Lease, <-chan outcome) {
	t.Helper()
	// Nobody waits for both: it is really released.
	before, err := c.TryAcquireAll(t.Context(), []string{key, "beside " + key})
	require.NoError(t, err)
	first := queue(t, c, key, opts...)
	second := queue(t, c, key)
	require.NoError(t, before.Release(t.Context()))
	time.Sleep(60 * time.Millisecond)
	l := granted(t, first)
	require.NotEqual(t, before.Token(), l.Token())
	return l, second
}

// release is Release that must succeed.
func release(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	require.NoError(t, l.Release(t.Context()))
}

// The goal: a lease goes from caller to caller of a process in the order in which they came,
// without a trip to the nodes, and is released by the last of them.
func TestHandoff_InOrderWithoutARoundTrip(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		token := l.Token()
		var all []<-chan outcome
		for range 8 {
			all = append(all, queue(t, c, "k"))
		}
		before := c.Stats().Operations
		for i, next := range all {
			for _, later := range all[i:] {
				waits(t, later)
			}
			release(t, l)
			l = granted(t, next)
			require.Equal(t, token, l.Token())
			require.Equal(t, 1, c.Stats().Held)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, before, c.Stats().Operations)
		release(t, l)
		v.nothingLeft(t)
		require.Zero(t, c.Stats().Held)
	})
}

// The goal: after the handoff the old lease is over, and nothing that is done to it reaches the
// nodes or the new lease, even after the new one was handed off too and when the old one would have
// ended.
func TestHandoff_TheOldLeaseTouchesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		old := v.hold(t, c, "k")
		until := old.Until()
		second, third := queue(t, c, "k"), queue(t, c, "k")
		before := c.Stats()
		touch := func(holder *lockpipe.Lease) {
			t.Helper()
			over(t, old, lockpipe.ErrReleased)
			require.ErrorIs(t, old.Extend(t.Context(), time.Second), lockpipe.ErrReleased)
			require.NoError(t, old.Release(t.Context()))
			require.NoError(t, c.ReleaseAll(t.Context(), old, old))
			synctest.Wait()
			lasting(t, holder)
			require.Equal(t, until, holder.Until())
			for i := range v.nodes {
				require.Equal(t, holder.Token(), v.get(i, "k"))
				require.Equal(t, longTTL, v.ttl(i, "k"))
			}
		}
		var together sync.WaitGroup
		for range 8 {
			together.Go(func() {
				if err := old.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		together.Wait()
		l := granted(t, second)
		touch(l)
		waits(t, third)
		release(t, l)
		l = granted(t, third)
		touch(l)
		after := c.Stats()
		require.Equal(t, before.Operations, after.Operations)
		require.Equal(t, before.Held, after.Held)
		release(t, l)
		require.NoError(t, old.Release(t.Context()))
		v.nothingLeft(t)
		time.Sleep(2 * longTTL)
		over(t, old, lockpipe.ErrReleased)
	})
}

// The goal: who is handed a lease may rely on it no longer than the nodes had confirmed to the one
// before.
func TestHandoff_TheLeaseEndsWhenItWasConfirmedToEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
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

// The goal: who asked for a longer time than what is left has it extended before it holds the
// lease, with all that belongs to it.
func TestHandoff_TheLeaseIsExtendedFirstIfMoreWasAskedFor(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
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

// The goal: an extension that comes too late for what was left gives nobody a lease; the next
// attempt does.
func TestHandoff_ALeaseThatCannotBeExtendedIsReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
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
	for _, opts := range [][]lockpipe.Option{
		{lockpipe.WithTTL(time.Second)},
		{lockpipe.WithTTL(time.Second), lockpipe.WithAutoExtend(988 * time.Millisecond)},
	} {
		inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
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

// The goal: a lease that was handed to one that wants it extended by itself is, up to its own
// maxHold.
func TestHandoff_TheLeaseIsExtendedAutomatically(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
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

// The goal: the callers of one process do not keep a key from others for longer than 50 ms and the
// turn of the last of them.
func TestHandoff_EndsAfterATime(t *testing.T) {
	const turn = 3 * time.Millisecond
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		other := v.client(t)
		l := v.hold(t, c, "k")
		var busy sync.WaitGroup
		for range 60 { // 180 ms of turns
			next := queue(t, c, "k")
			busy.Go(func() {
				o := <-next
				if o.err != nil {
					t.Error(o.err)
					return
				}
				time.Sleep(turn)
				if err := o.lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		start := time.Now()
		release(t, l)
		got, err := other.Acquire(t.Context(), "k", lockpipe.WithRetryDelay(time.Millisecond/2,
			time.Millisecond/2))
		require.NoError(t, err)
		require.Less(t, time.Since(start), 50*time.Millisecond+turn+2*time.Millisecond)
		require.Greater(t, time.Since(start), 50*time.Millisecond-1)
		release(t, got)
		busy.Wait()
		v.nothingLeft(t)
	})
}

// The goal: nor for more than 1,000 turns, however short they are.
func TestHandoff_EndsAfterANumber(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		var all []<-chan outcome
		for range 1003 {
			all = append(all, queue(t, c, "k"))
		}
		tokens := map[string]int{}
		for _, next := range all {
			release(t, l)
			o := <-next
			require.NoError(t, o.err)
			l = o.lease
			tokens[l.Token()]++
		}
		require.Len(t, tokens, 2)
		require.Equal(t, 3, tokens[l.Token()])
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: a lease is not handed off while an extension of it is under way, by the holder or
// automatic. It is released, and what the extension does to the nodes leaves nothing behind.
func TestHandoff_NotWhileTheLeaseIsBeingExtended(t *testing.T) {
	for _, automatic := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
			l, next := behindAnother(t, c, "k", lockpipe.WithTTL(10*time.Second),
				lockpipe.WithAutoExtend(time.Hour))
			token := l.Token()
			v.silence(0, 1, 2)
			extended := make(chan error, 1)
			if automatic {
				time.Sleep(5 * time.Second)
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

// The goal: a lease is not handed off if nodes may still change it, or keep it longer than it
// lasts.
func TestHandoff_NotOfALeaseInDoubt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l, next := behindAnother(t, c, "k")
		// A node that has not heard of it keeps the keys for longer.
		require.NoError(t, l.Extend(t.Context(), time.Second))
		token := l.Token()
		release(t, l)
		l = granted(t, next)
		require.NotEqual(t, token, l.Token())
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: a lease that is over is not handed off. After a release at the very end of its time the
// receiver gets no lease that is over.
func TestHandoff_NotOfALeaseThatRanOut(t *testing.T) {
	for _, before := range []time.Duration{-time.Millisecond, 0, 1, time.Millisecond} {
		inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
			l := v.hold(t, c, "k", lockpipe.WithTTL(time.Second))
			next := queue(t, c, "k", lockpipe.WithTTL(time.Second))
			time.Sleep(time.Until(l.Until()) - before)
			err := l.Release(t.Context())
			if before > 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, lockpipe.ErrExpired)
			}
			time.Sleep(200 * time.Millisecond)
			l = granted(t, next)
			lasting(t, l)
			for i := range v.nodes {
				require.Equal(t, l.Token(), v.get(i, "k"))
				require.Greater(t, v.ttl(i, "k"), time.Until(l.Until()))
			}
			release(t, l)
			v.nothingLeft(t)
		})
	}
}

// The goal: what was handed to a caller that is cancelled before it noticed goes to the next one,
// and to the nodes where there is none.
func TestHandoff_PastACancelledCallerToTheNext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		for _, last := range []bool{false, true} {
			l := v.hold(t, c, "k")
			ctx, cancel := context.WithCancel(t.Context())
			first := queueFor(ctx, c, []string{"k"}, lockpipe.WithRetryDelay(time.Second,
				time.Second))
			var second <-chan outcome
			if !last {
				second = queue(t, c, "k")
			}
			v.silence(0, 1, 2)
			time.Sleep(time.Second) // its second attempt hangs
			waits(t, first)
			release(t, l)
			over(t, l, lockpipe.ErrReleased)
			cancel()
			o := <-first
			require.Nil(t, o.lease)
			require.ErrorIs(t, o.err, context.Canceled)
			require.ErrorIs(t, o.err, lockpipe.ErrHeld)
			v.speak(0, 1, 2)
			if !last {
				got := granted(t, second)
				require.Equal(t, l.Token(), got.Token())
				require.Equal(t, l.Token(), v.get(0, "k"))
				release(t, got)
			}
			v.nothingLeft(t)
		}
	})
}

// The goal: a caller that is cancelled at the moment of the handoff either has the lease or another
// has it.
func TestHandoff_ACallerIsCancelledAtThatMoment(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		for n := range 60 {
			l := v.hold(t, c, "k", lockpipe.WithTTL(time.Second))
			ctx, cancel := context.WithCancel(t.Context())
			var opts []lockpipe.Option
			if n%2 == 0 {
				opts = append(opts, lockpipe.WithTTL(10*time.Second)) // it is extended first
			}
			first := queueFor(ctx, c, []string{"k"}, opts...)
			second := queue(t, c, "k")
			if n%3 == 0 {
				cancel()
				release(t, l)
			} else {
				release(t, l)
				cancel()
			}
			o := <-first
			if o.err == nil {
				lasting(t, o.lease)
				waits(t, second)
				release(t, o.lease)
			} else {
				require.ErrorIs(t, o.err, context.Canceled)
			}
			time.Sleep(60 * time.Millisecond)
			release(t, granted(t, second))
			v.nothingLeft(t)
			cancel()
		}
	})
}

// The goal: only who waits for exactly these keys is handed them; others get them from the nodes.
func TestHandoff_ALeaseOfManyKeysAsAWhole(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		same := queueFor(t.Context(), c, []string{"a", "b", "a", "c"})
		fewer := queueFor(t.Context(), c, []string{"a", "b"})
		rest := queueFor(t.Context(), c, []string{"c"})
		before := c.Stats().Operations
		release(t, l)
		got := granted(t, same)
		require.Equal(t, before, c.Stats().Operations)
		require.Equal(t, l.Token(), got.Token())
		require.Equal(t, []string{"a", "b", "c"}, got.Keys())
		release(t, got)
		time.Sleep(time.Second) // these nodes do not tell of changes
		two, one := granted(t, fewer), granted(t, rest)
		require.NotEqual(t, got.Token(), two.Token())
		require.NotEqual(t, got.Token(), one.Token())
		require.NoError(t, c.ReleaseAll(t.Context(), two, one))
		v.nothingLeft(t)
	})
}

// The goal: ReleaseAll and Do hand off as Release does, and Do returns only what fn returned.
func TestHandoff_ByReleaseAllAndDo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		var held []*lockpipe.Lease
		var next []<-chan outcome
		for i := range 5 {
			held = append(held, v.hold(t, c, fmt.Sprint(i)))
			next = append(next, queue(t, c, fmt.Sprint(i)))
		}
		before := c.Stats().Operations
		require.NoError(t, c.ReleaseAll(t.Context(), held...))
		for i := range next {
			held[i] = granted(t, next[i])
		}
		require.Equal(t, before, c.Stats().Operations)
		require.NoError(t, c.ReleaseAll(t.Context(), held...))
		v.nothingLeft(t)

		var inner context.Context
		var after <-chan outcome
		require.NoError(t, c.Do(t.Context(), "k", func(ctx context.Context) error {
			inner = ctx
			after = queue(t, c, "k")
			before = c.Stats().Operations
			return nil
		}))
		require.Error(t, inner.Err())
		l := granted(t, after)
		require.Equal(t, before, c.Stats().Operations)
		release(t, l)
		v.nothingLeft(t)
	})
}

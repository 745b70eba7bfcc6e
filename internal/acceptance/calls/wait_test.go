package calls

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a caller that gives up, at any place of the queue, leaves the order of the others as it
// is, and takes nothing along.
func TestWait_GivingUpLeavesTheOthersInOrder(t *testing.T) {
	t.Parallel()
	const callers = 4
	for gone := 1; gone < 1<<callers; gone++ { // every set of them
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			l := v.Hold(t, c, "k")
			var all []<-chan kit.Outcome
			var cancels []context.CancelFunc
			for range callers {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cancels = append(cancels, cancel)
				all = append(all, kit.QueueFor(ctx, c, []string{"k"}))
			}
			for i, cancel := range cancels {
				if gone>>i&1 == 0 {
					continue
				}
				cancel()
				o := <-all[i]
				require.Nil(t, o.Lease)
				require.ErrorIs(t, o.Err, context.Canceled)
				require.ErrorIs(t, o.Err, lockpipe.ErrHeld)
				require.ErrorContains(t, o.Err, `waited 0s for "k"`)
				synctest.Wait() // who is first now asks the nodes
			}
			for i, next := range all {
				if gone>>i&1 == 1 {
					continue
				}
				for _, later := range all[i+1:] {
					kit.Waits(t, later)
				}
				before := c.Stats().Operations
				kit.Release(t, l)
				l = kit.Granted(t, next)
				require.Equal(t, before, c.Stats().Operations)
			}
			kit.Release(t, l)
			v.NothingLeft(t)
		})
	}
}

// The goal: a deadline ends the wait on time, at every position in the queue, and the error has the
// reason and the time.
func TestWait_ADeadlineEndsItInTheQueue(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		var all []<-chan kit.Outcome
		for range 10 {
			all = append(all, kit.QueueFor(ctx, c, []string{"k"}))
		}
		for _, next := range all {
			o := <-next
			require.ErrorIs(t, o.Err, context.DeadlineExceeded)
			require.ErrorIs(t, o.Err, lockpipe.ErrHeld)
			require.ErrorContains(t, o.Err, `waited 300ms for "k"`)
			require.Equal(t, 300*time.Millisecond, o.At.Sub(start))
		}
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: a caller sleeps because the keys are held in the process. It has them soon after the
// time of the holder is over, and nobody asks the nodes before.
func TestWait_TheNextCallerWakesUpWhenTheHolderExpires(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, next := kit.BehindAnother(t, c, "k", lockpipe.WithTTL(10*time.Second))
		before := c.Stats().Operations
		time.Sleep(time.Until(l.Until()) - 1)
		require.Equal(t, before, c.Stats().Operations)
		kit.Waits(t, next)
		<-l.Done()
		ended := time.Now()
		o := <-next
		require.NoError(t, o.Err)
		// The nodes keep the keys a hundredth and 2 ms longer.
		require.LessOrEqual(t, o.At.Sub(ended), 102*time.Millisecond+60*time.Millisecond)
		kit.Release(t, o.Lease)
		v.NothingLeft(t)
	})
}

// The goal: the next caller wakes up at once when the holder's lease is found lost, ends by its
// maxHold, or is really released.
func TestWait_TheNextCallerWakesUpWhenTheHolderIsDone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, v *kit.FakeNodes, l *lockpipe.Lease){
		"lost": func(_ *testing.T, v *kit.FakeNodes, l *lockpipe.Lease) {
			v.Del(0, "k")
			v.Del(1, "k")
			<-l.Done()
		},
		"lost, found by Extend": func(t *testing.T, v *kit.FakeNodes, l *lockpipe.Lease) {
			v.Del(0, "k")
			v.Del(1, "k")
			require.ErrorIs(t, l.Extend(t.Context(), 10*time.Second), lockpipe.ErrLost)
		},
		"held for long enough": func(_ *testing.T, _ *kit.FakeNodes, l *lockpipe.Lease) { <-l.Done() },
		"released": func(t *testing.T, _ *kit.FakeNodes, l *lockpipe.Lease) {
			require.NoError(t, l.Extend(t.Context(), 9*time.Second)) // now it is not handed off
			kit.Release(t, l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				l, next := kit.BehindAnother(t, c, "k", lockpipe.WithTTL(10*time.Second),
					lockpipe.WithAutoExtend(12*time.Second))
				end(t, v, l)
				ended := time.Now()
				o := <-next
				require.NoError(t, o.Err)
				require.LessOrEqual(t, o.At.Sub(ended), 60*time.Millisecond)
				require.NotEqual(t, l.Token(), o.Lease.Token())
				kit.Release(t, o.Lease)
				v.NothingLeft(t)
			})
		})
	}
}

// The goal: the next caller wakes up when the time of a shortened lease is over, although it knew
// of a later end.
func TestWait_TheNextCallerWakesUpWhenAShortenedLeaseExpires(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, next := kit.BehindAnother(t, c, "k", lockpipe.WithTTL(10*time.Second))
		require.NoError(t, l.Extend(t.Context(), time.Second))
		<-l.Done()
		ended := time.Now()
		o := <-next
		require.NoError(t, o.Err)
		require.LessOrEqual(t, o.At.Sub(ended), 60*time.Millisecond)
		kit.Release(t, o.Lease)
		v.NothingLeft(t)
	})
}

// The goal: Close ends every waiting call with ErrClosed, those as well that are being handed
// something, and leaves no key behind.
func TestWait_CloseEndsTheQueue(t *testing.T) {
	t.Parallel()
	for _, handing := range []bool{false, true} {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			const callers = 100
			l := v.Hold(t, c, "k")
			var all []<-chan kit.Outcome
			for range callers {
				all = append(all, kit.Queue(t, c, "k"))
			}
			if handing {
				kit.Release(t, l)
			}
			require.NoError(t, c.Close(t.Context()))
			v.NothingLeft(t)
			got := 0
			for i, next := range all {
				o := <-next
				if o.Err == nil { // it was handed off in time
					require.True(t, handing)
					require.Zero(t, i)
					got++
					kit.Over(t, o.Lease, lockpipe.ErrClosed)
					continue
				}
				require.Nil(t, o.Lease)
				require.ErrorIs(t, o.Err, lockpipe.ErrClosed)
				if i > 0 || !handing {
					// The first one may have got from Close that it came too late.
					require.ErrorIs(t, o.Err, lockpipe.ErrHeld)
				}
			}
			require.LessOrEqual(t, got, 1)
			if !handing {
				kit.Over(t, l, lockpipe.ErrClosed)
			}
			require.Zero(t, c.Stats().Held)
			_, err := c.Acquire(t.Context(), "k")
			require.ErrorIs(t, err, lockpipe.ErrClosed)
		})
	}
}

// The goal: the error of an aborted waiting call has how long the keys are still held, if that is
// known: from the lease of a caller of the same client, or from the master that pushes changes.
func TestWait_AnAbortedCallReportsHowLongTheKeysAreHeld(t *testing.T) {
	t.Parallel()
	retryAfter := func(t *testing.T, next <-chan kit.Outcome) (time.Duration, error) {
		t.Helper()
		held, err := kit.HeldError(t, next)
		require.Equal(t, []string{"k"}, held.Keys)
		return held.RetryAfter, err
	}
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, next := kit.BehindAnother(t, c, "k", lockpipe.WithTTL(10*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		third := kit.QueueFor(ctx, c, []string{"k"})
		after, err := retryAfter(t, third)
		require.Zero(t, after, "others are before it")
		require.ErrorContains(t, err, "is held by another caller of this Client")
		kit.Release(t, l)
		kit.Release(t, kit.Granted(t, next))

		l = v.Hold(t, v.Client(t), "k", lockpipe.WithTTL(10*time.Second))
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		after, err = retryAfter(t, kit.QueueFor(ctx, c, []string{"k"}))
		require.InDelta(t, 9*time.Second, after, float64(5*time.Millisecond))
		require.ErrorContains(t, err, "held by another caller (")
		kit.Release(t, l)

		for i := range v.Nodes { // somebody who never gives it back
			v.Set(i, "k", "another's")
			defer v.Del(i, "k")
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		after, err = retryAfter(t, kit.QueueFor(ctx, c, []string{"k"}))
		require.Zero(t, after, "until nobody knows when")
		require.ErrorContains(t, err, "held by another caller, seen on ")
	})
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		before, err := c.TryAcquireAll(t.Context(), []string{"k", "beside k"})
		require.NoError(t, err)
		first := kit.QueueFor(t.Context(), c, []string{"k"}, lockpipe.WithTTL(10*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := kit.QueueFor(ctx, c, []string{"k"})
		kit.Release(t, before)
		time.Sleep(60 * time.Millisecond)
		l := kit.Granted(t, first)
		after, _ := retryAfter(t, second)
		require.Equal(t, time.Until(l.Until()), after)
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: a client that is closed leaves the lines in which it stands, so that nobody waits for
// it.
func TestWait_CloseLeavesTheLine(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Hold(t, c, "k")
		waiter := v.Client(t)
		ended := kit.Queue(t, waiter, "k")
		waiting := func() int {
			all, err := c.Peek(t.Context(), []string{"k"})
			require.NoError(t, err)
			return all[0].Waiting
		}
		require.Equal(t, 1, waiting())
		require.NoError(t, waiter.Close(t.Context()))
		require.ErrorIs(t, (<-ended).Err, lockpipe.ErrClosed)
		synctest.Wait()
		require.Zero(t, waiting())
	})
}

// The goal: a call that waited for a held key says so, even if ctx ended during an attempt that no
// node answered.
func TestWait_TheErrorHasTheLastDecidedReason(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		err := abortedInTheSecondAttempt(t, v, c)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	})
}

// abortedInTheSecondAttempt returns the error of an Acquire whose first attempt was refused, and
// whose ctx ended when the second one was with every node.
func abortedInTheSecondAttempt(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client,
	opts ...lockpipe.Option,
) error {
	t.Helper()
	v.Hold(t, c, "k")
	before := v.ExecutedOnAll("SET")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := kit.Later(func() error {
		_, err := c.Acquire(ctx, "k", append(opts, lockpipe.WithRetryDelay(time.Second,
			time.Second))...)
		return err
	})
	synctest.Wait()
	require.GreaterOrEqual(t, v.ExecutedOnAll("SET"), before+2,
		"a quorum refuses the first attempt")
	v.Silence(0, 1, 2)
	time.Sleep(time.Second)
	synctest.Wait()
	asked := func(i int) bool { return v.Hanging(i) > 0 }
	for range 20 { // first the call may ask a node for its place in the line
		if !slices.ContainsFunc(kit.Span(0, 3), func(i int) bool { return !asked(i) }) {
			break
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	for i := range v.Nodes {
		require.True(t, asked(i), "the second attempt")
	}
	cancel()
	return kit.Receive(t, ended, "Acquire does not return")
}

// The goal: a release within the process is acted on at once, however long the pauses between
// attempts are.
func TestWait_AReleaseInTheProcessWakesTheNext(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		long := lockpipe.WithRetryDelay(40*time.Second, 40*time.Second)
		l := kit.Take(t, c, "k")
		// The nodes keep it for no longer than the lease, but it is not handed off.
		require.NoError(t, l.Extend(t.Context(), time.Second))
		next := kit.Wanted(t, c, []string{"k"}, long)
		begin := time.Now()
		require.NoError(t, l.Release(t.Context()))
		got := <-next
		require.NotNil(t, got)
		require.Less(t, time.Since(begin), time.Second)
		require.NoError(t, got.Release(t.Context()))
		v.NothingLeft(t)
	})
}

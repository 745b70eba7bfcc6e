package lockpipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// keptOn wants all nodes to have the lease's keys for that long.
func keptOn(t *testing.T, v *fakeNodes, l *lockpipe.Lease, d time.Duration) {
	t.Helper()
	synctest.Wait()
	for i := range v.nodes {
		for _, key := range l.Keys() {
			require.Equal(t, l.Token(), v.get(i, key), "node %d", i)
			require.Equal(t, d, v.ttl(i, key), "node %d", i)
		}
	}
}

// The goal: after Keep the lease is over, its holder did that, and nothing ends its keys before
// their time: no call on the lease, and no other client. Then they are free.
func TestKeep_LeavesTheKeysForThatLong(t *testing.T) {
	t.Parallel()
	var ends endings
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithTTL(10*time.Second))
		require.NoError(t, err)
		ctx := l.Bind(t.Context())
		require.NoError(t, l.Keep(t.Context(), 30*time.Second))
		over(t, l, lockpipe.ErrKept)
		endedBy(t, ctx, lockpipe.ErrKept)
		keptOn(t, v, l, 30*time.Second)
		require.Zero(t, c.Stats().Held)

		before := v.sent()
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, c.ReleaseAll(t.Context(), l, l))
		require.ErrorIs(t, l.Extend(t.Context(), time.Second), lockpipe.ErrKept)
		require.ErrorIs(t, l.Keep(t.Context(), time.Minute), lockpipe.ErrKept)
		require.Equal(t, before, v.sent(), "something was sent")

		other := v.client(t)
		for _, client := range []*lockpipe.Client{c, other} {
			_, err = client.TryAcquire(t.Context(), "b")
			require.ErrorIs(t, err, lockpipe.ErrHeld)
		}
		time.Sleep(29 * time.Second)
		_, err = other.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		time.Sleep(time.Second)
		l, err = other.TryAcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		release(t, l)
		v.nothingLeft(t)
		require.Empty(t, ends.all(), "OnLost")
	}, onLost(ends.tell))
}

// The goal: Close leaves kept keys on the nodes, for their time.
func TestKeep_TheKeysOutlastTheClient(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(5*time.Second))
		require.NoError(t, l.Keep(t.Context(), 10*time.Second))
		require.NoError(t, c.Close(t.Context()))
		keptOn(t, v, l, 10*time.Second)
		over(t, l, lockpipe.ErrKept)
		time.Sleep(10 * time.Second)
		v.nothingLeft(t)
	})
}

// The goal: a time that is shorter than what is left does not bring the end of the keys nearer, and
// a fraction of a millisecond is not lost.
func TestKeep_NeverShortens(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(20*time.Second))
		require.NoError(t, l.Keep(t.Context(), time.Second))
		over(t, l, lockpipe.ErrKept)
		keptOn(t, v, l, 20*time.Second)
		l = v.hold(t, c, "l", lockpipe.WithTTL(time.Second))
		require.NoError(t, l.Keep(t.Context(), 2*time.Second+1))
		keptOn(t, v, l, 2*time.Second+time.Millisecond)
		time.Sleep(20 * time.Second)
		v.nothingLeft(t)
	})
}

// The goal: Keep is not bound by maxHold, and ends automatic extension.
func TestKeep_EndsAutomaticExtension(t *testing.T) {
	t.Parallel()
	var ends endings
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", auto(time.Second, 5*time.Second)...)
		time.Sleep(3 * time.Second)
		heldEverywhere(t, v, l)
		require.NoError(t, l.Keep(t.Context(), 40*time.Second))
		keptOn(t, v, l, 40*time.Second)
		before := v.sent()
		time.Sleep(40 * time.Second)
		require.Equal(t, before, v.sent(), "something was sent")
		v.nothingLeft(t)
		require.Empty(t, ends.all(), "OnLost")
	}, onLost(ends.tell))
}

// The goal: if no quorum confirms, the lease is not kept. It lasts as before, and its end deletes
// the keys. A second Keep may succeed.
func TestKeep_WithoutAQuorumTheLeaseLasts(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*testing.T, *fakeNodes, *lockpipe.Lease){
		"keep": func(t *testing.T, v *fakeNodes, l *lockpipe.Lease) {
			require.NoError(t, l.Keep(t.Context(), 30*time.Second))
			over(t, l, lockpipe.ErrKept)
			keptOn(t, v, l, 30*time.Second)
			time.Sleep(30 * time.Second)
		},
		"release": func(t *testing.T, _ *fakeNodes, l *lockpipe.Lease) { release(t, l) },
		"expire": func(t *testing.T, _ *fakeNodes, l *lockpipe.Lease) {
			time.Sleep(time.Until(l.Until()))
			over(t, l, lockpipe.ErrExpired)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
				l := v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
				until := l.Until()
				time.Sleep(time.Second)
				v.fail(0, readOnly)
				v.fail(1, readOnly)
				err := l.Keep(t.Context(), 30*time.Second)
				quorumError(t, err)
				lasting(t, l)
				require.Equal(t, until, l.Until())
				synctest.Wait()
				require.Equal(t, 30*time.Second, v.ttl(2, "k"))
				v.heal(0, 1)
				time.Sleep(5 * time.Second) // they are connected again
				then(t, v, l)
				v.nothingLeft(t)
			})
		})
	}
}

// The goal: if ctx ends before the nodes have confirmed, the lease is not kept.
func TestKeep_IsNotKeptIfTheContextEndsFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		ctx, cancel := context.WithCancel(t.Context())
		v.silence(0, 1, 2)
		ended := later(func() error { return l.Keep(ctx, time.Minute) })
		synctest.Wait()
		cancel()
		err := <-ended
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		lasting(t, l)
		require.ErrorIs(t, l.Keep(ctx, time.Minute), context.Canceled)
		lasting(t, l)
		v.speak(0, 1, 2)
		require.Equal(t, time.Minute, v.ttl(0, "k"))
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: if a quorum does not have the keys any more, the lease is lost and not kept.
func TestKeep_ALostLeaseIsNotKept(t *testing.T) {
	t.Parallel()
	var ends endings
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		v.del(0, "k")
		v.set(t, 1, "k", "another's")
		require.ErrorIs(t, l.Keep(t.Context(), time.Minute), lockpipe.ErrLost)
		over(t, l, lockpipe.ErrLost)
		synctest.Wait()
		require.Len(t, ends.of(l), 1)
		require.Equal(t, "another's", v.get(1, "k"))
		v.del(1, "k")
		v.nothingLeft(t)
	}, onLost(ends.tell))
}

// The goal: Keep waits for the automatic extension under way, and then keeps. If ctx ends in
// between, the lease lasts.
func TestKeep_WaitsForAnExtensionUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", auto(9*time.Second, time.Hour)...)
		v.silence(0, 1, 2)
		for v.hanging(0) == 0 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.Keep(ctx, time.Minute), context.DeadlineExceeded)
		lasting(t, l)
		kept := later(func() error { return l.Keep(t.Context(), time.Minute) })
		synctest.Wait()
		v.speak(0, 1, 2)
		require.NoError(t, <-kept)
		over(t, l, lockpipe.ErrKept)
		keptOn(t, v, l, time.Minute)
		time.Sleep(time.Minute)
		v.nothingLeft(t)
	})
}

// The goal: a Release that comes while Keep waits for the nodes wins: the keys are deleted, also on
// the nodes that have confirmed already.
func TestKeep_AReleaseInBetweenWins(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l, next := behindAnother(t, c, "k")
		token := l.Token()
		v.silence(0, 1)
		kept := later(func() error { return l.Keep(t.Context(), time.Minute) })
		synctest.Wait()
		released := later(func() error { return l.Release(t.Context()) })
		synctest.Wait()
		v.speak(0, 1)
		require.ErrorIs(t, <-kept, lockpipe.ErrReleased)
		require.NoError(t, <-released)
		over(t, l, lockpipe.ErrReleased)
		l = granted(t, next)
		require.NotEqual(t, token, l.Token())
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: Close that comes while Keep waits for the nodes releases the lease.
func TestKeep_CloseInBetweenReleases(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		v.silence(0, 1, 2)
		kept := later(func() error { return l.Keep(t.Context(), time.Minute) })
		synctest.Wait()
		closed := later(func() error { return c.Close(t.Context()) })
		synctest.Wait()
		v.speak(0, 1, 2)
		require.ErrorIs(t, <-kept, lockpipe.ErrClosed)
		require.NoError(t, <-closed)
		v.nothingLeft(t)
	})
}

// The goal: an extension that failed looks at how the lease ended only later. If it was kept
// meanwhile, its keys stay.
func TestKeep_NoLateCleanupDeletesTheKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		require.NoError(t, l.Keep(t.Context(), time.Minute))
		lockpipe.ReleaseInBackground(l)
		keptOn(t, v, l, time.Minute)
		time.Sleep(time.Minute)
		v.nothingLeft(t)
	})
}

// The goal: Keep hands the keys to no call of the process. Those that wait have the keys one after
// another when they have expired. A call that gives up before learns how long they last.
func TestKeep_WaitingCallsWaitForTheExpiry(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			var l *lockpipe.Lease
			var all []<-chan outcome
			if queued { // the keys come by the queue of the process
				var second <-chan outcome
				l, second = behindAnother(t, c, "k")
				all = append(all, second)
			} else {
				l = v.hold(t, c, "k")
			}
			all = append(all, queue(t, c, "k"), queue(t, c, "k"))
			ctx, cancel := context.WithCancel(t.Context())
			impatient := queueFor(ctx, c, []string{"x", "k"})
			require.NoError(t, l.Keep(t.Context(), time.Minute))
			kept, handovers := time.Now(), c.Stats().Handovers
			time.Sleep(30 * time.Second)
			for _, ended := range all {
				waits(t, ended)
			}
			require.Equal(t, handovers, c.Stats().Handovers)
			cancel()
			err := (<-impatient).err
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, lockpipe.ErrHeld)
			time.Sleep(29 * time.Second)
			waits(t, all[0])
			for i, ended := range all {
				o := receive(t, ended, "a call still waits")
				require.NoError(t, o.err)
				require.NotEqual(t, l.Token(), o.lease.Token())
				require.GreaterOrEqual(t, o.at.Sub(kept), time.Minute)
				require.Less(t, o.at.Sub(kept), time.Minute+10*time.Second, "call %d", i)
				release(t, o.lease)
			}
			v.nothingLeft(t)
			require.True(t, lockpipe.QueueIdle(c, "k", "x"))
		})
	}
}

// The goal: the function of DoAll may keep the keys. DoAll does not release them, and has no error.
func TestKeep_InTheFunctionOfDoAll(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		var kept *lockpipe.Lease
		require.NoError(t, c.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context,
			l *lockpipe.Lease,
		) error {
			kept = l
			return l.Keep(ctx, time.Minute)
		}))
		keptOn(t, v, kept, time.Minute)
		time.Sleep(time.Minute)
		v.nothingLeft(t)
	})
}

// The goal: arguments that make no sense are refused, nothing is sent, and the lease lasts.
func TestKeep_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		var none *lockpipe.Lease
		require.Equal(t, lockpipe.ErrReleased, none.Keep(t.Context(), time.Second))
		l := v.hold(t, c, "k")
		before := v.sent()
		for _, d := range []time.Duration{-1, 0, 10*time.Millisecond - 1, time.Minute + 1} {
			err := l.Keep(t.Context(), d)
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, "Keep("+d.String()+")")
		}
		require.Equal(t, before, v.sent(), "something was sent")
		lasting(t, l)
		release(t, l)
	})
}

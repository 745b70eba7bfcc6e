package lockpipe_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// laptop can be suspended: the keys on the nodes grow older then, and no timer runs.
type laptop struct{ suspended atomic.Int64 }

func (l *laptop) suspend(d time.Duration) { l.suspended.Add(int64(d)) }

// onALaptop runs a test in a bubble, with three nodes and a client on a laptop that was suspended
// before, for longer than any lease lasts.
func onALaptop(
	t *testing.T, test func(t *testing.T, box *laptop, v *kit.FakeNodes, c *lockpipe.Client),
	change ...func(*lockpipe.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v, box := kit.NewFakeNodes(t, 3), new(laptop)
		cfg := kit.Config(v.URLs, change)
		cfg.Dial = v.Dial
		c, err := lockpipe.NewSuspended(cfg, func(time.Time) time.Duration {
			return time.Duration(box.suspended.Load())
		})
		require.NoError(t, err)
		v.Connect(t, c)
		box.suspend(time.Hour)
		test(t, box, v, c)
	})
}

// validFor is how long a lease of 20 s is valid.
const validFor = 20*time.Second - 200*time.Millisecond - 2*time.Millisecond

var twenty = lockpipe.WithTTL(20 * time.Second)

// The goal: a suspension that was longer than the validity ends a lease. The first look finds that,
// and soon the context is cancelled and OnLost is called.
func TestSuspended_ASuspensionEndsALease(t *testing.T) {
	t.Parallel()
	var lost chan error
	onALaptop(t, func(t *testing.T, box *laptop, v *kit.FakeNodes, c *lockpipe.Client) {
		l, start := v.Hold(t, c, "k", twenty), time.Now()
		ctx := l.Context()
		box.suspend(10 * time.Second)
		require.NoError(t, l.Err())
		box.suspend(10 * time.Second)
		require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
		require.Zero(t, l.Until())
		require.ErrorIs(t, l.Extend(t.Context(), time.Second), lockpipe.ErrExpired)
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrExpired)
		require.ErrorIs(t, <-lost, lockpipe.ErrExpired)
		require.Less(t, time.Since(start), 300*time.Millisecond)
	}, func(cfg *lockpipe.Config) {
		lost = make(chan error, 1) // in the bubble
		cfg.OnLost = func(_ *lockpipe.Lease, err error) { lost <- err }
	})
}

// The goal: validity counts from the sending, whatever call it is, also when the machine is
// suspended before the nodes answer.
func TestSuspended_ASuspensionBeforeTheAnswerCounts(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, c *lockpipe.Client) *lockpipe.Lease{
		"TryAcquire": func(ctx context.Context, c *lockpipe.Client) *lockpipe.Lease {
			l, _ := c.TryAcquire(ctx, "k", twenty)
			return l
		},
		"TryAcquire with a fence": func(ctx context.Context, c *lockpipe.Client) *lockpipe.Lease {
			l, _ := c.TryAcquire(ctx, "k", twenty, lockpipe.WithFencing())
			return l
		},
		"TryAcquireEach": func(ctx context.Context, c *lockpipe.Client) *lockpipe.Lease {
			return c.TryAcquireEach(ctx, []string{"k", "l"}, twenty)[1].Lease
		},
		"Acquire": func(ctx context.Context, c *lockpipe.Client) *lockpipe.Lease {
			l, _ := c.Acquire(ctx, "k", twenty)
			return l
		},
		"AcquireAsync": func(ctx context.Context, c *lockpipe.Client) *lockpipe.Lease {
			done := make(chan *lockpipe.Lease)
			granted := func(l *lockpipe.Lease, _ error) { done <- l }
			_ = c.AcquireAsync(ctx, []string{"k"}, granted, twenty)
			return <-done
		},
		"Extend": func(ctx context.Context, c *lockpipe.Client) *lockpipe.Lease {
			l, _ := c.TryAcquire(ctx, "held", lockpipe.WithTTL(15*time.Second))
			return l
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			onALaptop(t, func(t *testing.T, box *laptop, v *kit.FakeNodes, c *lockpipe.Client) {
				var l *lockpipe.Lease
				if name == "Extend" {
					l = call(t.Context(), c)
					synctest.Wait()
				}
				v.Silence(0, 1, 2)
				start := time.Now()
				ended := kit.Later(func() *lockpipe.Lease {
					if l != nil {
						_ = l.Extend(t.Context(), 20*time.Second)
						return l
					}
					return call(t.Context(), c)
				})
				synctest.Wait()
				for range 2 {
					box.suspend(time.Second)
					time.Sleep(400 * time.Millisecond) // a node that hangs for longer is given up
				}
				v.Speak(0, 1, 2)
				l = kit.Receive(t, ended, "no answer")
				require.NotNil(t, l)
				require.Equal(t, start.Add(validFor-2*time.Second), l.Until())
			})
		})
	}
}

// The goal: an attempt whose answers come after a suspension longer than its TTL has no lease.
func TestSuspended_AnAttemptAcrossALongSuspensionFails(t *testing.T) {
	t.Parallel()
	onALaptop(t, func(t *testing.T, box *laptop, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Silence(0, 1, 2)
		ended := kit.Later(func() error {
			_, err := c.TryAcquire(t.Context(), "k",
				twenty)
			return err
		})
		synctest.Wait()
		box.suspend(20 * time.Second)
		v.Speak(0, 1, 2)
		err := kit.Receive(t, ended, "no answer")
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorContains(t, err, "granted when 20s of 20s had passed")
		require.NoError(t, kit.Try(t, c, "k").Release(t.Context()), "what it left is released")
	})
}

// The goal: a lease that is handed off is valid for no longer than it was for the holder before. If
// it ran out while the machine was suspended, it is not handed off.
func TestSuspended_ASuspensionCountsForALeaseThatIsHandedOff(t *testing.T) {
	t.Parallel()
	onALaptop(t, func(t *testing.T, box *laptop, v *kit.FakeNodes, c *lockpipe.Client) {
		l, start := v.Hold(t, c, "k", twenty), time.Now()
		second, third := kit.Queue(t, c, "k", twenty), kit.Queue(t, c, "k", twenty)
		box.suspend(3 * time.Second)
		require.NoError(t, l.Release(t.Context()))
		next := kit.Granted(t, second)
		require.Equal(t, l.Token(), next.Token())
		require.WithinRange(t, next.Until(), start, start.Add(validFor-3*time.Second))

		v.Silence(0, 1, 2) // so little is left that the lease has to be extended first
		box.suspend(5 * time.Second)
		require.NoError(t, next.Release(t.Context()))
		kit.Waits(t, third)
		box.suspend(13 * time.Second) // more than was left, and less than was asked for
		v.Speak(0, 1, 2)
		fresh := kit.Granted(t, third)
		require.NotEqual(t, l.Token(), fresh.Token(), "it was confirmed, but the lease was over")
	})
}

package fake_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
	"github.com/stretchr/testify/require"
)

// bothClocks runs a test with the wall clock and in a bubble: a Client must work in both.
func bothClocks(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("wall clock", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	t.Run("bubble", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// over wants a lease that ended with want, and whose context says so.
func over(t *testing.T, l *lockpipe.Lease, want error) {
	t.Helper()
	require.ErrorIs(t, l.Err(), want)
	require.ErrorIs(t, context.Cause(l.Context()), want)
}

// The goal: the first call succeeds, on nodes that are all up, and many clients have nothing in
// common.
func TestNewClient_IsReady(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c, other := fake.NewClient(t), fake.NewClient(t)
		require.Len(t, c.Nodes(), 3)
		for _, n := range c.Nodes() {
			require.Equal(t, lockpipe.NodeUp, n.State)
		}
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithFencing())
		require.NoError(t, err)
		require.Positive(t, l.Fence())
		_, err = c.TryAcquire(t.Context(), "b")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		_, err = other.TryAcquire(t.Context(), "b")
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		_, err = c.TryAcquire(t.Context(), "b")
		require.NoError(t, err)
	})
}

// The goal: a client with the defaults writes nothing to the log of the program. A logger that a
// test gives gets lines, and none is a warning.
func TestNewClient_IsSilent(t *testing.T) {
	var standard, given bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&standard, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClient(t)
		_, err := c.TryAcquire(t.Context(), "k")
		require.NoError(t, err)
		c.Lose("k")
		time.Sleep(2 * time.Second) // a loss is logged after one
		synctest.Wait()
	})
	require.Empty(t, standard.String())
	synctest.Test(t, func(t *testing.T) {
		_, err := fake.NewClient(t, func(cfg *lockpipe.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&given, nil))
		}).TryAcquire(t.Context(), "k")
		require.NoError(t, err)
		synctest.Wait()
	})
	require.Contains(t, given.String(), "node is up")
	require.NotContains(t, given.String(), "WARN")
}

// The goal: the end of the test releases what is held, waits for nothing, and closes the client,
// whatever state the nodes are in.
func TestNewClient_IsClosedWithTheTest(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		var c *fake.Client
		var l *lockpipe.Lease
		var r recorder
		r.run(t, func(t testing.TB) {
			c = fake.NewClient(t)
			l, _ = c.TryAcquire(context.Background(), "k")
			c.StopVotes()
		})
		require.Empty(t, r.failures)
		over(t, l, lockpipe.ErrClosed)
		_, err := c.TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, lockpipe.ErrClosed)
	})
}

// The goal: the test may choose any configuration but the nodes.
func TestNewClient_AppliesTheConfiguration(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t, func(cfg *lockpipe.Config) {
			cfg.Prefix, cfg.TTL = "app:", 1500*time.Millisecond+time.Microsecond
			cfg.Nodes = []string{"redis://127.0.0.1:1"}
		})
		l, err := c.TryAcquire(t.Context(), "k")
		require.NoError(t, err)
		require.LessOrEqual(t, time.Until(l.Until()), 1500*time.Millisecond)
		c.Lose("k")
		over(t, l, lockpipe.ErrLost)
	})
}

// The goal: a key that another holds is refused, in all calls, until it is free.
func TestHold_RefusesUntilFree(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t)
		c.Hold("a", "b")
		for _, r := range c.TryAcquireEach(t.Context(), []string{"a", "b"}) {
			require.ErrorIs(t, r.Err, lockpipe.ErrHeld)
		}
		_, err := c.TryAcquireAll(t.Context(), []string{"c", "b"})
		var held *lockpipe.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, []string{"b"}, held.Keys)
		require.ErrorIs(t, c.Do(t.Context(), "a", nil), lockpipe.ErrInvalid)

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err = c.Acquire(ctx, "a")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		c.Free("b")
		_, err = c.TryAcquireAll(t.Context(), []string{"c", "b"})
		require.NoError(t, err)
		_, err = c.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
	})
}

// The goal: a call that waits gets the key when the other has freed it.
func TestFree_WakesAWaitingCall(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t)
		c.Hold("k")
		done := make(chan error, 1)
		go func() {
			_, err := c.Acquire(t.Context(), "k")
			done <- err
		}()
		time.Sleep(5 * time.Millisecond) // the call may or may not wait by then
		c.Free("k")
		require.NoError(t, <-done)
	})
}

// The goal: Free leaves the keys of leases alone.
func TestFree_KeepsLeases(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t)
		l, err := c.Acquire(t.Context(), "k")
		require.NoError(t, err)
		c.Free("k", "none")
		require.NoError(t, l.Extend(t.Context(), time.Second))
	})
}

// The goal: leases are lost at once, with all their keys, whichever call took them. Other leases
// stay.
func TestLose_EndsEachLeaseOfTheKey(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		lost := make(chan error, 10)
		c := fake.NewClient(t, func(cfg *lockpipe.Config) {
			cfg.OnLost = func(_ *lockpipe.Lease, err error) { lost <- err }
		})
		for name, l := range takeByEachCall(t, c) {
			require.NoError(t, l.Err(), name)
			c.Lose(name)
			over(t, l, lockpipe.ErrLost)
			require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
			require.ErrorIs(t, <-lost, lockpipe.ErrLost)
			_, err := c.TryAcquire(t.Context(), name)
			require.ErrorIs(t, err, lockpipe.ErrHeld)
			c.Free(name)
			_, err = c.TryAcquire(t.Context(), name)
			require.NoError(t, err)
		}
	})
}

// takeByEachCall returns leases by their key, which is the name of the call that took them.
func takeByEachCall(t *testing.T, c *fake.Client) map[string]*lockpipe.Lease {
	t.Helper()
	ctx := t.Context()
	leases := make(map[string]*lockpipe.Lease)
	took := func(l *lockpipe.Lease, err error) {
		require.NoError(t, err)
		leases[l.Key()] = l
	}
	took(c.TryAcquire(ctx, "try"))
	took(c.TryAcquireAll(ctx, []string{"try all", "another"}))
	took(c.Acquire(ctx, "wait", lockpipe.WithAutoExtend(time.Minute)))
	took(c.AcquireAll(ctx, []string{"wait for all", "a third"}))
	each := c.TryAcquireEach(ctx, []string{"each", "each"})
	took(each[0].Lease, each[0].Err)
	granted := make(chan struct{})
	require.NoError(t, c.AcquireAsync(ctx, []string{"async"}, func(l *lockpipe.Lease, err error) {
		took(l, err)
		close(granted)
	}))
	<-granted
	require.ErrorIs(t, c.AcquireAsync(ctx, []string{"nil"}, nil), lockpipe.ErrInvalid)
	require.Len(t, leases, 6)
	return leases
}

// The goal: a lease that expires leaves its keys free.
func TestExpire_EndsEachLeaseOfTheKey(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t)
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		other, err := c.TryAcquire(t.Context(), "c")
		require.NoError(t, err)
		c.Expire("b")
		over(t, l, lockpipe.ErrExpired)
		require.NoError(t, other.Err())
		_, err = c.TryAcquire(t.Context(), "a")
		require.NoError(t, err)
	})
}

// The goal: a lease also expires while no node votes.
func TestExpire_NeedsNoVotes(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t)
		l, err := c.TryAcquire(t.Context(), "k")
		require.NoError(t, err)
		c.StopVotes()
		c.Expire("k")
		over(t, l, lockpipe.ErrExpired)
	})
}

// The goal: in a bubble a lease inside Do is lost by its automatic extension, in no time.
func TestHold_TakesAKeyAwayFromItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClient(t)
		err := c.Do(t.Context(), "k", func(ctx context.Context) error {
			c.Hold("k")
			<-ctx.Done()
			return context.Cause(ctx)
		}, lockpipe.WithAutoExtend(time.Hour))
		require.ErrorIs(t, err, lockpipe.ErrLost)
	})
}

// The goal: without votes each call fails at once and says why. When the nodes vote again, calls
// succeed, and nothing is left of what failed.
func TestStopVotes_LeavesNoQuorum(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t, func(cfg *lockpipe.Config) {
			cfg.Prefix = "app:lockpipe:" // as the own keys of a Client with the prefix app:
		})
		l, err := c.TryAcquire(t.Context(), "held")
		require.NoError(t, err)
		for range 2 {
			c.StopVotes()
			_, err = c.TryAcquireAll(t.Context(), []string{"a", "b"})
			var quorum *lockpipe.QuorumError
			require.ErrorAs(t, err, &quorum)
			require.Equal(t, 3, quorum.Unknown)
			require.ErrorContains(t, err, "OOM")
			_, err = c.TryAcquire(t.Context(), "a")
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			require.ErrorIs(t, l.Extend(t.Context(), time.Second*5), lockpipe.ErrNoQuorum)
			require.NoError(t, l.Err())
			c.StartVotes()
			_, err = c.TryAcquireAll(t.Context(), []string{"a", "b"})
			require.NoError(t, err)
			require.NoError(t, l.Extend(t.Context(), 10*time.Second))
			c.Expire("a")
			_, err = c.TryAcquire(t.Context(), "b")
			require.NoError(t, err)
			c.Expire("b")
		}
	})
}

// The goal: a waiting call survives an outage, and a lease that is extended does not.
func TestStopVotes_WhileCallsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClient(t)
		l, err := c.Acquire(t.Context(), "held", lockpipe.WithAutoExtend(time.Hour))
		require.NoError(t, err)
		c.StopVotes()
		begin := time.Now()
		time.AfterFunc(time.Minute, c.StartVotes)
		_, err = c.Acquire(t.Context(), "k")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begin), time.Minute)
		require.Less(t, time.Since(begin), time.Minute+time.Second)
		over(t, l, lockpipe.ErrLost)
	})
}

// The goal: a switch that can't do what it says fails the test.
func TestSwitches_FailTheTestWhenTheyCantWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		r.run(t, func(t testing.TB) {
			c := fake.NewClient(t)
			c.Lose("none")
			c.Expire("none")
			_, err := c.Acquire(context.Background(), "k", lockpipe.WithAutoExtend(time.Hour))
			require.NoError(t, err)
			c.Expire("k")
			c.StopVotes()
			c.Lose("k")
		})
		require.Len(t, r.failures, 4)
		require.Contains(t, r.failures[0], `Lose("none"): no lease`)
		require.Contains(t, r.failures[1], `Expire("none"): no lease`)
		require.Contains(t, r.failures[2], `Expire("k"): the lease ended otherwise`)
		require.Contains(t, r.failures[3], `Lose("k"): the lease ended otherwise`)
		r = recorder{}
		r.run(t, func(t testing.TB) {
			fake.NewClient(t, func(cfg *lockpipe.Config) { cfg.TTL = 1 })
		})
		require.Len(t, r.failures, 1)
		require.Contains(t, r.failures[0], "Config.TTL")
	})
}

// The goal: the tests of the example pass. The shop waits for 20 ms at most, so they are in
// bubbles: a busy machine may need more.
func TestExample_Passes(t *testing.T) {
	for name, test := range exampleTests {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// The goal: Lose knows the leases of calls that wanted any of several keys.
func TestClient_LosesALeaseOfAnyKey(t *testing.T) {
	c := fake.NewClient(t)
	for _, call := range []func(context.Context, []string, ...lockpipe.Option) (*lockpipe.Lease,
		error,
	){c.AcquireAny, c.TryAcquireAny} {
		l, err := call(t.Context(), lockpipe.Slots("slot", 3))
		require.NoError(t, err)
		c.Lose(l.Key())
		require.ErrorIs(t, l.Err(), lockpipe.ErrLost)
	}
}

// The goal: Lose and Expire know the leases that Adopt has taken.
func TestClient_EndsALeaseThatWasAdopted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClient(t)
		adopted := func(key string) *lockpipe.Lease {
			l, err := c.Acquire(t.Context(), key)
			require.NoError(t, err)
			require.NoError(t, l.Keep(t.Context(), time.Hour))
			l, err = c.Adopt(t.Context(), l.Handle())
			require.NoError(t, err)
			return l
		}
		lost, expired := adopted("a"), adopted("b")
		c.Lose("a")
		over(t, lost, lockpipe.ErrLost)
		c.Expire("b")
		over(t, expired, lockpipe.ErrExpired)
		_, err := c.TryAcquire(t.Context(), "b")
		require.NoError(t, err, "the key is free")
	})
}

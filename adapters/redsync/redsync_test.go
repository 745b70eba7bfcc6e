package redsync_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	original "github.com/go-redsync/redsync/v4"
	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/redsync"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

var (
	_ mutex = (*redsync.Mutex)(nil)
	_ mutex = (*original.Mutex)(nil)

	// The options have the types of redsync's.
	_ = []func(time.Duration) redsync.Option{redsync.WithExpiry, redsync.WithRetryDelay}
	_ = []func(time.Duration) original.Option{original.WithExpiry, original.WithRetryDelay}
	_ = []func(bool) redsync.Option{redsync.WithFailFast, redsync.WithShufflePools}
	_ = []func(bool) original.Option{original.WithFailFast, original.WithShufflePools}
	_ = []func(int) redsync.Option{redsync.WithTries}
	_ = []func(int) original.Option{original.WithTries}
	_ = []func() redsync.Option{redsync.WithSetNXOnExtend}
	_ = []func() original.Option{original.WithSetNXOnExtend}
	_ = []func(redsync.DelayFunc) redsync.Option{redsync.WithRetryDelayFunc}
	_ = []func(original.DelayFunc) original.Option{original.WithRetryDelayFunc}
)

// The goal: an error is one of redsync and one of lockpipe, and names the nodes by their index.
func TestErrors_AreOfBothLibraries(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	client := newClient(t, nodes)
	rs := redsync.New(client)
	for _, i := range []int{0, 2} {
		_, err := nodes.Do(i, "SET", "k", "another's")
		require.NoError(t, err)
	}
	m := rs.NewMutex("k", redsync.WithTries(1))
	err := m.Lock()
	require.ErrorIs(t, err, redsync.ErrFailed)
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorContains(t, err, "held by another caller, seen on 2 nodes")
	var taken *redsync.ErrTaken
	require.ErrorAs(t, err, &taken)
	require.ElementsMatch(t, []int{0, 2}, taken.Nodes)
	var nodeTaken *redsync.ErrNodeTaken
	require.ErrorAs(t, err, &nodeTaken)
	require.Contains(t, taken.Nodes, nodeTaken.Node)

	m = rs.NewMutex("gone")
	require.NoError(t, m.Lock())
	doOnAll(t, nodes, "SET", "gone", "another's")
	_, err = m.Extend()
	require.ErrorIs(t, err, redsync.ErrExtendFailed)
	require.ErrorIs(t, err, lockpipe.ErrLost)
	require.ErrorAs(t, err, &taken)

	require.NoError(t, nodes.Kill(1))
	require.NoError(t, nodes.Kill(2))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = rs.NewMutex("free").TryLockContext(ctx)
	require.ErrorIs(t, err, redsync.ErrFailed)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	var node *redsync.RedisError
	require.ErrorAs(t, err, &node)
	var quorum *lockpipe.QuorumError
	require.ErrorAs(t, err, &quorum)
	require.Equal(t, quorum.Nodes[0].Node, client.Nodes()[node.Node].Addr)
	require.Equal(t, quorum.Nodes[0].Err, node.Err)

	err = rs.NewMutex("k", redsync.WithExpiry(time.Hour)).Lock()
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.NotErrorAs(t, err, new(*redsync.ErrTaken))
	require.ErrorIs(t, rs.NewMutex("k", redsync.WithTries(0)).Lock(), redsync.ErrFailed)
	require.ErrorIs(t, fmt.Errorf("%w", redsync.RedisError{Err: io.EOF}), io.EOF)
}

// The goal: when the tries are over, the error is no context error. When the caller's ctx ends, it
// is.
func TestErrors_EndOfTriesIsNoContextError(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	rs := redsync.New(newClient(t, nodes))
	require.NoError(t, rs.NewMutex("k", redsync.WithExpiry(longExpiry)).Lock())
	err := rs.NewMutex("k", redsync.WithTries(3),
		redsync.WithRetryDelay(10*time.Millisecond)).Lock()
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.NotErrorIs(t, err, context.Canceled)
	ctx := pastDeadline{t.Context(), make(chan struct{})}
	err = rs.NewMutex("k", redsync.WithRetryDelayFunc(func(int) time.Duration {
		close(ctx.done) // after the first try, however long that took
		return time.Hour
	})).LockContext(ctx)
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// pastDeadline is a context whose deadline is over when done is closed.
type pastDeadline struct {
	context.Context
	done chan struct{}
}

func (c pastDeadline) Done() <-chan struct{} { return c.done }

func (c pastDeadline) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The goal: the first try has its time, however short the delays after it are.
func TestLock_FirstTryHasItsTime(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	m := redsync.New(newClient(t, nodes)).NewMutex(t.Name(), redsync.WithTries(2),
		redsync.WithRetryDelay(0))
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	thawed := time.AfterFunc(50*time.Millisecond, func() { _ = nodes.Thaw(0) })
	defer thawed.Stop()
	require.NoError(t, m.Lock())
	require.NoError(t, nodes.Thaw(1))
	ok, err := m.Unlock()
	require.True(t, ok, "%v", err)
}

// The goal: Unlock wakes a waiting Lock, which does not sleep for the rest of its delay.
func TestLock_IsWokenByUnlock(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	rs, other := redsync.New(newClient(t, nodes)), redsync.New(newClient(t, nodes))
	for name, waiting := range map[string]*redsync.Redsync{
		"of the same process": rs,
		"of another":          other,
	} {
		t.Run(name, func(t *testing.T) {
			first := rs.NewMutex(t.Name(), redsync.WithExpiry(longExpiry))
			require.NoError(t, first.Lock())
			sleeping := make(chan struct{})
			second := waiting.NewMutex(t.Name(), redsync.WithTries(2),
				redsync.WithRetryDelayFunc(func(int) time.Duration {
					close(sleeping)
					return time.Hour
				}))
			locked := make(chan error)
			go func() { locked <- second.Lock() }()
			<-sleeping
			_, err := first.Unlock()
			require.NoError(t, err)
			require.NoError(t, <-locked)
			_, err = second.Unlock()
			require.NoError(t, err)
		})
	}
}

// The goal: an Unlock whose context has ended still releases the lock, in the background. A second
// Unlock waits for that.
func TestUnlock_ContinuesAfterTheContext(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	m := redsync.New(newClient(t, nodes)).NewMutex(t.Name(), redsync.WithExpiry(longExpiry))
	require.NoError(t, m.Lock())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := m.UnlockContext(ctx); !ok {
		require.ErrorIs(t, err, context.Canceled)
		ok, err = m.Unlock()
		require.True(t, ok, "%v", err)
	}
	require.Zero(t, m.Until())
	waitUntilFree(t, nodes, t.Name())
}

// The goal: unlocking a mutex whose key was deleted or overwritten says so, as redsync does, also
// the second time.
func TestUnlock_OfAKeyThatIsGone(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	m := redsync.New(newClient(t, nodes)).NewMutex(t.Name(), redsync.WithExpiry(longExpiry))
	require.NoError(t, m.Lock())
	for i := range nodes.Len() {
		_, err := nodes.Do(i, "SET", t.Name(), "another", "PX", "600000")
		require.NoError(t, err)
	}
	for range 2 {
		ok, err := m.Unlock()
		require.False(t, ok)
		require.ErrorIs(t, err, redsync.ErrLockAlreadyExpired)
	}
}

// The goal: with options of lockpipe a mutex outlasts its expiry, has a fence, and its Lease says
// when it ends.
func TestMutex_OptionsOfLockpipe(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	rs := redsync.New(newClient(t, nodes))
	m := rs.NewMutex(t.Name(), redsync.WithExpiry(2*shortExpiry),
		redsync.WithLease(lockpipe.WithAutoExtend(longExpiry), lockpipe.WithFencing()))
	require.Nil(t, m.Lease())
	require.NoError(t, m.Lock())
	require.Positive(t, m.Lease().Fence())
	first := m.Until()
	require.Eventually(t, func() bool { return m.Until().After(first) }, testTimeout,
		time.Millisecond)
	require.NoError(t, m.Lease().Context().Err())
	_, err := m.Unlock()
	require.NoError(t, err)
	<-m.Lease().Done()
}

func ExampleNew() {
	_ = func() error {
		client, err := lockpipe.New(lockpipe.Config{
			Nodes: []string{
				"redis://10.0.0.1:6379", "redis://10.0.0.2:6379",
				"redis://10.0.0.3:6379",
			},
		})
		if err != nil {
			return err
		}
		rs := redsync.New(client) // was: redsync.New(pools...)

		// What follows is as before.
		mutex := rs.NewMutex("order:42", redsync.WithExpiry(10*time.Second), redsync.WithTries(8))
		if err := mutex.Lock(); err != nil {
			return err
		}
		if ok, err := mutex.Unlock(); !ok {
			return err
		}
		return nil
	}
}

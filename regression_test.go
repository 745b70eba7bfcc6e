package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a release that begins just before Close is on its way before the nodes are left.
func TestAReleaseBesideCloseLeavesNothing(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	for round := range 100 {
		c := newClient(t, nodes, timeout(5*time.Second))
		var callers sync.WaitGroup
		begun := make(chan struct{})
		var once sync.Once
		for g := range 8 {
			callers.Go(func() {
				for i := 0; ; i++ {
					l, err := c.TryAcquire(context.Background(), fmt.Sprintf("k:%d:%d:%d", round, g, i))
					if err != nil {
						if !errors.Is(err, lockpipe.ErrClosed) {
							t.Errorf("TryAcquire beside Close: %v", err)
						}
						return
					}
					once.Do(func() { close(begun) })
					if err := l.Release(context.Background()); err != nil && !errors.Is(err, lockpipe.ErrClosed) {
						t.Errorf("Release beside Close: %v", err)
					}
				}
			})
		}
		<-begun
		require.NoError(t, c.Close(context.Background()))
		callers.Wait()
		for i := range nodes.Len() {
			keys, err := nodes.Keys(i, "k:")
			require.NoError(t, err)
			require.Empty(t, keys, "round %d, node %d", round, i)
		}
	}
}

// The goal: a shorter extension that was not confirmed does not leave the keys of the others for their longer TTL.
func TestAnUnconfirmedShorteningIsReleasedAtItsEnd(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := newClient(t, nodes, timeout(5*time.Second))
	connected(t, c)
	l := try(t, c, "k", lockpipe.WithTTL(50*time.Second))
	for i := range 2 {
		do(t, nodes, i, "REPLICAOF", "127.0.0.1", "1")
	}
	require.ErrorIs(t, l.Extend(t.Context(), 500*time.Millisecond), lockpipe.ErrNoQuorum)
	for i := range 2 {
		do(t, nodes, i, "REPLICAOF", "NO", "ONE")
	}
	<-l.Done()
	require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
	nothingLeft(t, nodes, 0, 1, 2)
}

// The goal: a call that waited for a held key says so, also where the end of ctx fell into an attempt that nobody answered.
func TestAWaitingCallTellsTheLastDecidedReason(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := newClient(t, nodes, timeout(10*time.Second))
	connected(t, c)
	try(t, c, "k", lockpipe.WithTTL(time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := c.Stats().Operations
	ended := later(func() error {
		_, err := c.Acquire(ctx, "k", lockpipe.WithRetryDelay(0, time.Millisecond), lockpipe.WithTTL(time.Minute))
		return err
	})
	eventually(t, func() bool { return c.Stats().Operations >= before+6 }, "no attempt was refused")
	for i := range nodes.Len() {
		require.NoError(t, nodes.Freeze(i))
	}
	cancel()
	err := receive(t, ended, "Acquire goes on")
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	for i := range nodes.Len() {
		require.NoError(t, nodes.Thaw(i))
	}
}

// The goal: an extension that failed for the caller, but took effect on nodes, does not keep the keys for its TTL when the lease
// has run out.
func TestAnUnconfirmedExtensionIsReleasedAtTheEnd(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, timeout(100*time.Millisecond)))
	l := try(t, c, "k", lockpipe.WithTTL(1500*time.Millisecond))
	for i := range 2 {
		require.NoError(t, nodes.Freeze(i))
	}
	require.ErrorIs(t, l.Extend(t.Context(), 50*time.Second), lockpipe.ErrNoQuorum)
	for i := range 2 {
		require.NoError(t, nodes.Thaw(i))
	}
	<-l.Done()
	nothingLeft(t, nodes, 0, 1, 2)
}

// The goal: the error of ctx is found also where it cut off the last attempt that was allowed.
func TestTheLastAttemptTellsTheEndOfCtx(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, timeout(20*time.Second)))
	try(t, c, "k", lockpipe.WithTTL(50*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := c.Stats().Operations
	ended := later(func() error {
		_, err := c.Acquire(ctx, "k", lockpipe.WithMaxAttempts(2), lockpipe.WithRetryDelay(time.Second, time.Second), lockpipe.WithTTL(50*time.Second))
		return err
	})
	eventually(t, func() bool { return c.Stats().Operations >= before+3 }, "no attempt was refused")
	for i := range nodes.Len() {
		require.NoError(t, nodes.Freeze(i))
	}
	now := c.Stats().Operations
	eventually(t, func() bool { return c.Stats().Operations > now }, "no second attempt")
	cancel()
	err := receive(t, ended, "Acquire goes on")
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorIs(t, err, context.Canceled)
	for i := range nodes.Len() {
		require.NoError(t, nodes.Thaw(i))
	}
}

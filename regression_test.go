package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
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
					l, err := c.TryAcquire(context.Background(), fmt.Sprintf("k:%d:%d:%d", round, g,
						i))
					if err != nil {
						if !errors.Is(err, lockpipe.ErrClosed) {
							t.Errorf("TryAcquire beside Close: %v", err)
						}
						return
					}
					once.Do(func() { close(begun) })
					if err := l.Release(context.Background()); err != nil &&
						!errors.Is(err, lockpipe.ErrClosed) {
						t.Errorf("Release beside Close: %v", err)
					}
				}
			})
		}
		<-begun
		require.NoError(t, c.Close(context.Background()))
		callers.Wait()
		for i := range nodes.Len() {
			keys, err := nodes.Keys(i, prefix+"k:")
			require.NoError(t, err)
			require.Empty(t, keys, "round %d, node %d", round, i)
		}
	}
}

// The goal: a shorter extension that was not confirmed does not leave the keys of the others for
// their longer TTL.
func TestAnUnconfirmedShorteningIsReleasedAtItsEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(50*time.Second))
		begin := time.Now()
		v.fail(0, readOnly)
		v.fail(1, readOnly)
		require.ErrorIs(t, l.Extend(t.Context(), 500*time.Millisecond), lockpipe.ErrNoQuorum)
		v.heal(0, 1)
		time.Sleep(time.Until(l.Until()) - 1) // it is released as soon as it has ended
		require.Equal(t, l.Token(), v.get(0, "k"))
		require.Greater(t, v.ttl(0, "k"), 49*time.Second)
		<-l.Done()
		require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
		require.Equal(t, 493*time.Millisecond, time.Since(begin))
		time.Sleep(time.Second)
		v.nothingLeft(t)
	})
}

// The goal: a call that waited for a held key says so, also where the end of ctx fell into an
// attempt that nobody answered.
func TestAWaitingCallTellsTheLastDecidedReason(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		err := cutOffInTheSecondAttempt(t, v, c)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	})
}

// The goal: the error of ctx is found also where it cut off the last attempt that was allowed.
func TestTheLastAttemptTellsTheEndOfCtx(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		err := cutOffInTheSecondAttempt(t, v, c, lockpipe.WithMaxAttempts(2))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	})
}

// cutOffInTheSecondAttempt is the error of an Acquire whose first attempt was refused, and whose
// ctx ended when the second one was with every node.
func cutOffInTheSecondAttempt(t *testing.T, v *virtual, c *lockpipe.Client,
	opts ...lockpipe.Option,
) error {
	t.Helper()
	v.hold(t, c, "k")
	before := v.executedOnAll("SET")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := later(func() error {
		_, err := c.Acquire(ctx, "k", append(opts, lockpipe.WithRetryDelay(time.Second,
			time.Second))...)
		return err
	})
	synctest.Wait()
	require.GreaterOrEqual(t, v.executedOnAll("SET"), before+2,
		"a quorum refuses the first attempt")
	v.silence(0, 1, 2)
	time.Sleep(time.Second)
	synctest.Wait()
	for i := range v.nodes {
		require.Equal(t, 1, v.hanging(i), "the second attempt")
	}
	cancel()
	return receive(t, ended, "Acquire goes on")
}

// The goal: an extension that failed for the caller, but took effect on nodes, does not keep the
// keys for its TTL when the lease has run out.
func TestAnUnconfirmedExtensionIsReleasedAtTheEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(1500*time.Millisecond))
		v.silence(0, 1)
		require.ErrorIs(t, l.Extend(t.Context(), 50*time.Second), lockpipe.ErrNoQuorum)
		v.speak(0, 1)
		for i := range v.nodes {
			require.Greater(t, v.ttl(i, "k"), 49*time.Second, "node %d did not do it", i)
		}
		<-l.Done()
		require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
		time.Sleep(time.Second)
		v.nothingLeft(t)
	}, timeout(100*time.Millisecond))
}

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

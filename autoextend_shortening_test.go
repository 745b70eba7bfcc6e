package lockpipe_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: an automatic extension never ends the keys before the lease. This holds if nodes
// execute the extension and do not confirm it, and if a node may still execute a shorter one.
// Nobody else gets the keys while the holder relies on them.
func TestAutoExtend_NeverShortens(t *testing.T) {
	t.Parallel()
	for _, broken := range []time.Duration{0, 4 * time.Second} {
		t.Run(broken.String(), func(t *testing.T) { neverShortens(t, broken) })
	}
}

// neverShortens cuts the holder off while its extensions hang; for so long, they hang on
// connections that break.
func neverShortens(t *testing.T, broken time.Duration) {
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, rival *lockpipe.Client) {
		var cut atomic.Bool
		c := v.client(t, timeout(time.Second), func(cfg *lockpipe.Config) {
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if cut.Load() && !strings.HasPrefix(addr, "node-0") {
					return nil, errors.New("cut off")
				}
				return v.dial(ctx, network, addr)
			}
		})
		l := v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second), lockpipe.WithAutoExtend(time.Hour))
		until := func(condition func() bool) {
			for !condition() {
				time.Sleep(100 * time.Millisecond)
			}
		}
		v.silence(2)
		until(func() bool { return v.hanging(2) > 0 })
		time.Sleep(5 * time.Second) // the connection breaks
		v.speak(2)
		time.Sleep(time.Second)
		require.NoError(t, l.Extend(t.Context(), 50*time.Second))
		synctest.Wait()
		v.silence(1, 2)
		until(func() bool { return v.hanging(1) > 0 })
		time.Sleep(broken)
		until(func() bool { return v.hanging(1) > 0 && v.hanging(2) > 0 })
		cut.Store(true)
		until(func() bool {
			return c.Nodes()[1].State == lockpipe.NodeDown &&
				c.Nodes()[2].State == lockpipe.NodeDown
		})
		v.speak(1, 2) // they execute what they were sent, and nobody is notified
		for l.Err() == nil {
			_, err := rival.TryAcquire(t.Context(), "k")
			if l.Err() == nil {
				require.ErrorIs(t, err, lockpipe.ErrHeld)
			}
			time.Sleep(100 * time.Millisecond)
		}
		cut.Store(false)
		time.Sleep(time.Minute)
	})
}

// The goal: one node that may still execute a shorter extension does not keep the lease short.
func TestAutoExtend_OneLateNodeDoesNotShortenWhatFollows(t *testing.T) {
	t.Parallel()
	inBubble(t, 5, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second), lockpipe.WithAutoExtend(time.Hour))
		v.silence(4)
		require.NoError(t, l.Extend(t.Context(), 50*time.Millisecond))
		require.NoError(t, l.Extend(t.Context(), 10*time.Second))
		time.Sleep(3 * time.Second)
		v.speak(4)
		synctest.Wait()
		before := c.Stats().Extended
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.LessOrEqual(t, c.Stats().Extended-before, uint64(26))
	}, timeout(time.Second))
}

// The goal: if most nodes may still execute a shorter extension, short extensions keep the lease.
func TestAutoExtend_ALeaseIsKeptByWhatCanBeTrusted(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(30*time.Second), lockpipe.WithAutoExtend(time.Hour))
		v.silence(0, 1, 2)
		require.ErrorIs(t, l.Extend(t.Context(), 8*time.Second), lockpipe.ErrNoQuorum)
		time.Sleep(4 * time.Second) // the connections break
		v.speak(0, 1, 2)
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
		v.nothingLeft(t)
	}, timeout(time.Second))
}

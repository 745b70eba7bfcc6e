package leases

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a stopped server executes an extension that was given up, after a longer one was
// confirmed on a newer connection. The keys last as long as the lease nevertheless.
func TestExtend_ALateOneNeverEndsALease(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.Silence(0, 1, 2)
		require.ErrorIs(t, l.Extend(t.Context(), 8*time.Second), lockpipe.ErrNoQuorum)
		time.Sleep(4 * time.Second) // the connections break
		var late []chan struct{}
		for _, n := range v.Nodes {
			late = append(late, n.Speak()...)
		}
		require.Len(t, late, 3)
		require.NoError(t, l.Extend(t.Context(), 50*time.Second))
		for _, resume := range late {
			close(resume)
		}
		synctest.Wait()
		time.Sleep(40 * time.Second)
		_, err := v.Client(t).TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
		v.NothingLeft(t)
	}, kit.Timeout(time.Second))
}

// The goal: an extension that no node answered, and that asked for less, keeps no later one from
// being confirmed for the whole TTL.
func TestExtend_AnUnansweredShorterOneLimitsNothing(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(30*time.Second), lockpipe.WithAutoExtend(time.Hour))
		v.Silence(0, 1, 2)
		require.ErrorIs(t, l.Extend(t.Context(), 8*time.Second), lockpipe.ErrNoQuorum)
		time.Sleep(4 * time.Second) // the connections break
		v.Speak(0, 1, 2)
		before := c.Stats().Extended
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.LessOrEqual(t, c.Stats().Extended-before, uint64(6))
		require.NoError(t, l.Release(t.Context()))
		v.NothingLeft(t)
	}, kit.Timeout(time.Second))
}

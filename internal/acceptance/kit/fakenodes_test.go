package kit_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a silent fake node is like a frozen server. When it continues, it executes what it was
// sent, in the order of arrival, also from a connection that the client gave up.
func TestFakeNodes_ASilentOneExecutesWhatItWasSent(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Silence(0)
		leases := []*lockpipe.Lease{kit.Try(t, c, "a"), kit.Try(t, c, "b"), kit.Try(t, c, "c")}
		all, err := c.TryAcquireAll(t.Context(), []string{"x", "y"})
		require.NoError(t, err)
		time.Sleep(10 * time.Second) // several connections
		require.NoError(t, c.ReleaseAll(t.Context(), append(leases, all)...))
		synctest.Wait()
		require.Zero(t, v.Executed(0, "SET")+v.Executed(0, "EVALSHA"))
		require.Equal(t, 3, v.Executed(1, "SET"), "what a script calls is not counted")
		require.Greater(t, v.Hanging(0), 1)
		var deleted atomic.Bool
		v.Watch(func(i int, command string, args []string) {
			if i == 0 && command == "DEL" && args[0] == kit.Prefix+"a" {
				deleted.Store(true)
			}
		})
		v.Speak(0)
		require.True(t, deleted.Load(), "the first connection set it, a later one deleted it")
		require.Zero(t, v.Hanging(0))
		require.Positive(t, v.Executed(0, "SET"))
		time.Sleep(time.Second)
		v.NothingLeft(t)
	})
}

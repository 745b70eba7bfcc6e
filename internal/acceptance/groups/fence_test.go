package groups

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: the fence of a lease is above those of all groups, also if only one of them has a
// higher one. The call finds a higher one itself, whichever way it asks.
func TestGroups_AFenceIsAboveThoseOfAllGroups(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		var seen fence.Checker
		ahead := time.Now().Add(time.Hour).UnixMicro()
		for round, name := range []string{"try", "wait", "async", "try", "wait", "async"} {
			ahead += int64(time.Hour / time.Microsecond)
			for _, i := range kit.MembersOf([]string{"a", "b", "c"}[round/2]) {
				v.SetFence(i, keys[round/2], strconv.FormatInt(ahead, 10))
			}
			for _, key := range keys {
				seen.Allow(key, ahead)
			}
			began := time.Now()
			var l *lockpipe.Lease
			var err error
			switch name {
			case "try":
				l, err = c.TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
			case "wait":
				l, err = c.AcquireAll(t.Context(), keys, lockpipe.WithFencing())
			default:
				l, err = kit.WaitForAsync(c)(t.Context(), keys, lockpipe.WithFencing())
			}
			require.NoError(t, err, name)
			require.Greater(t, l.Fence(), ahead, name)
			require.Less(t, time.Since(began), time.Second, name)
			for _, key := range keys {
				have := 0
				for _, i := range kit.MembersOf(c.GroupOf(key)) {
					number, _ := strconv.ParseInt(v.Fence(i, key), 10, 64)
					if number >= l.Fence() {
						have++
					}
				}
				require.GreaterOrEqual(t, have, 2, "no quorum has the fence of %s", key)
			}
			kit.Passed(t, &seen, l)
			kit.Fenced(t, c, &seen, keys[2], keys[0])
		}
		v.OnlyCompanions(t)
	})
}

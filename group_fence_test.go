package lockpipe_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/stretchr/testify/require"
)

// The goal: the fence of a lease is above those of all groups, also if only one of them has a
// higher one. The call finds a higher one itself, whichever way it asks.
func TestGroups_AFenceIsAboveThoseOfAllGroups(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		keys := oneOfEach(c, "k", "a", "b", "c")
		var seen fence.Checker
		ahead := time.Now().Add(time.Hour).UnixMicro()
		for round, name := range []string{"try", "wait", "async", "try", "wait", "async"} {
			ahead += int64(time.Hour / time.Microsecond)
			for _, i := range membersOf([]string{"a", "b", "c"}[round/2]) {
				v.setFence(i, keys[round/2], strconv.FormatInt(ahead, 10))
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
				l, err = waitForAsync(c)(t.Context(), keys, lockpipe.WithFencing())
			}
			require.NoError(t, err, name)
			require.Greater(t, l.Fence(), ahead, name)
			require.Less(t, time.Since(began), time.Second, name)
			for _, key := range keys {
				have := 0
				for _, i := range membersOf(c.GroupOf(key)) {
					number, _ := strconv.ParseInt(v.fence(i, key), 10, 64)
					if number >= l.Fence() {
						have++
					}
				}
				require.GreaterOrEqual(t, have, 2, "no quorum has the fence of %s", key)
			}
			passed(t, &seen, l)
			fenced(t, c, &seen, keys[2], keys[0])
		}
		v.onlyCompanions(t)
	})
}

package lockpipe_test

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: extensions that a silent group holds up do not hold up those of other leases. Long
// leases wait for long, and there are more of them than batches at a time.
func TestGroups_ASilentOneHoldsUpNoExtensionOfTheOthers(t *testing.T) {
	t.Parallel()
	for _, silent := range []string{"a", "b"} {
		inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			for i := range 40 {
				keys := oneOfEach(c, keysOf("long", 40)[i], "a", "b")
				v.holdAll(t, c, keys, auto(longTTL, time.Hour)...)
				time.Sleep(200 * time.Millisecond)
			}
			short := []*lockpipe.Lease{
				v.holdAll(t, c, oneOfEach(c, "k", "c"), auto(300*time.Millisecond, time.Hour)...),
			}
			for _, group := range []string{"a", "b"} {
				if group != silent {
					short = append(short, v.holdAll(t, c, oneOfEach(c, "k", group),
						auto(300*time.Millisecond, time.Hour)...))
				}
			}
			time.Sleep(5 * time.Second)
			v.silence(membersOf(silent)...)
			for range 200 {
				time.Sleep(100 * time.Millisecond)
				for _, l := range short {
					require.NoError(t, l.Err(), "%s after %v", l.Key(), silent)
				}
			}
			v.speak(membersOf(silent)...)
		}, timeout(50*time.Millisecond))
	}
}

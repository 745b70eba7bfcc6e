package link

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/stretchr/testify/require"
)

// The goal: a cause is logged again when it was absent for long, or when the node was up for longer
// than a moment. A lost connection and the down state behind it have one line for one cause.
func TestLogCauses_AreLoggedAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c causes
		broken, refused := errors.New("protocol error"), errors.New("refused")
		require.True(t, c.isNew(Connecting, broken))
		require.False(t, c.isNew(Down, broken))
		require.True(t, c.isNew(Down, refused))
		for range 10 { // a flip-flop
			time.Sleep(causeMemory / 2)
			require.False(t, c.isNew(Down, broken))
			require.False(t, c.isNew(Up, nil))
			time.Sleep(StableAfter)
			require.False(t, c.isNew(Down, refused))
		}
		time.Sleep(causeMemory)
		require.True(t, c.isNew(Down, broken), "it was away")
		require.False(t, c.isNew(Up, nil))
		time.Sleep(StableAfter + 1)
		require.True(t, c.isNew(Connecting, broken), "the node was up")
		quarantine := func(ends time.Duration) error {
			return &guard.Quarantine{Until: time.Now().Add(ends), Reason: "it restarted"}
		}
		require.True(t, c.isNew(Quarantined, quarantine(time.Minute)))
		require.False(t, c.isNew(Quarantined, quarantine(2*time.Minute)), "its end moves")
		for i := range 10 * maxCauses {
			c.isNew(Down, errors.New(strings.Repeat("x", i)))
			require.LessOrEqual(t, len(c.lastSeen), maxCauses)
		}
	})
}

package calls

import (
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a call that met another process at its key records that, so that the next ones back
// off.
func TestContention_ACallThatMeetsAnotherProcessRecordsIt(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c, rival := connectedTo(t, nodes), connectedTo(t, nodes)
	require.Eventually(t, func() bool { return meets(t, c, rival, nodes) }, 20*time.Second,
		time.Millisecond)
}

// meets has c wait for a key that the rival holds. In most cases a node notifies c that it is free.
// meets reports whether c recorded the contention.
func meets(t *testing.T, c, rival *Calls, nodes *lockpipetest.Nodes) bool {
	held, f := rival.Acquire(t.Context(), []string{"x"}, options())
	require.Nil(t, f)
	got := make(chan error, 1)
	done := func(l *locker.Lease, f *locker.Failure) {
		if f != nil {
			got <- errFailed
			return
		}
		got <- l.Release(t.Context())
	}
	require.Nil(t, c.AcquireAsync(t.Context(), []string{"x"}, options(), done))
	arbiter := c.locker.Mux.Arbiter("x", 0, 0)
	for start := time.Now(); time.Since(start) < 20*time.Second; {
		info, err := nodes.Do(arbiter, "INFO", "stats")
		require.NoError(t, err)
		if text, _ := info.(string); strings.Contains(text, "tracking_total_keys:1") {
			break
		}
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, <-got)
	return c.contention.Any()
}

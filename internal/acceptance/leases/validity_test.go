package leases

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// whileSilent runs call while no node answers, and thaws them once it was sent. It returns a time
// between sending and answer.
func whileSilent(t *testing.T, c *lockpipe.Client, nodes *lockpipetest.Nodes,
	call func() error,
) (between time.Time) {
	t.Helper()
	for i := range nodes.Len() {
		require.NoError(t, nodes.Freeze(i))
	}
	before := c.Stats().Operations
	ended := kit.Later(call)
	// A node that has not answered the call before this one is sent nothing yet.
	quorum := uint64(nodes.Len()/2 + 1)
	kit.Eventually(t, func() bool { return c.Stats().Operations >= before+quorum },
		"nothing was sent")
	between = time.Now()
	for i := range nodes.Len() {
		require.NoError(t, nodes.Thaw(i))
	}
	require.NoError(t, kit.Receive(t, ended, "no answer"))
	return between
}

// The goal: validity counts from before the first byte was sent, not from the answer, for acquire
// and extend alike, and the drift is taken off.
func TestValidity_CountsFromTheSending(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(20*time.Second)))
	validity := func(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }
	var l *lockpipe.Lease

	begin := time.Now()
	between := whileSilent(t, c, nodes, func() (err error) {
		l, err = c.TryAcquire(t.Context(), "k", lockpipe.WithTTL(50*time.Second))
		return err
	})
	require.False(t, l.Until().After(between.Add(validity(50*time.Second))))
	require.False(t, l.Until().Before(begin.Add(validity(50*time.Second))))

	begin = time.Now()
	between = whileSilent(t, c, nodes, func() error {
		return l.Extend(t.Context(),
			55*time.Second)
	})
	require.False(t, l.Until().After(between.Add(validity(55*time.Second))))
	require.False(t, l.Until().Before(begin.Add(validity(55*time.Second))))
}

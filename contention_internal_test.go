package lockpipe

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// connectedTo returns a client of the nodes that is connected to all of them.
func connectedTo(t *testing.T, nodes *lockpipetest.Nodes) *Client {
	t.Helper()
	c, err := New(Config{
		Nodes: nodes.URLs(), NodeTimeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	const patient = 20 * time.Second
	up := 0
	for end := time.Now().Add(patient); up < nodes.Len(); time.Sleep(10 * time.Millisecond) {
		up = 0
		for _, n := range c.Nodes() {
			if n.State == NodeUp {
				up++
			}
			// If the machine stops it in the first use for a second, it is quarantined for MaxTTL.
			if n.State == NodeQuarantined && n.Until.Add(patient).After(end) {
				end = n.Until.Add(patient)
			}
		}
		require.True(t, time.Now().Before(end), "a node does not come up: %+v", c.Nodes())
	}
	return c
}

// The goal: an arbiter that always reports something new does not keep a caller from keys that the
// other nodes would grant. Here a holder that only the arbiter knows keeps renewing its key there.
func TestContention_ABusyArbiterDoesNotHideFreeKeys(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	arbiter := c.mux.Arbiter("k", 0)
	set := func(i int) {
		if _, err := nodes.Do(i, "SET", "k", "another", "PX", "50000"); err != nil {
			t.Error(err)
		}
	}
	for i := range 3 {
		set(i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for ctx.Err() == nil {
			set(arbiter)
			time.Sleep(5 * time.Millisecond)
		}
	})
	held := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(ctx, []string{"k"}, func(_ *Lease,
		err error,
	) {
		held <- err
	}))
	for i := range 3 {
		if i != arbiter {
			_, err := nodes.Do(i, "DEL", "k")
			require.NoError(t, err)
		}
	}
	require.NoError(t, <-held)
	cancel()
	renewing.Wait()
}

// The goal: a call that met another process at its key records that, so that the next ones back
// off.
func TestContention_ACallThatMeetsAnotherProcessRecordsIt(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c, rival := connectedTo(t, nodes), connectedTo(t, nodes)
	require.Eventually(t, func() bool { return meets(t, c, rival, nodes) }, 20*time.Second,
		time.Millisecond)
}

// meets has c wait for a key that the rival holds. In most cases a node notifies c that it is free.
// meets reports whether c recorded the contention.
func meets(t *testing.T, c, rival *Client, nodes *lockpipetest.Nodes) bool {
	held, err := rival.Acquire(t.Context(), "x")
	require.NoError(t, err)
	got := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(t.Context(), []string{"x"}, func(l *Lease, err error) {
		if err == nil {
			err = l.Release(t.Context())
		}
		got <- err
	}))
	arbiter := c.mux.Arbiter("x", 0)
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

package lockpipe

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/servertest"
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
	nodes := servertest.Start(t, 3)
	c := connectedTo(t, nodes)
	arbiter := 0
	for c.locker.Mux.Muxes[0].Line(arbiter) != c.locker.Mux.Arbiter("k", 0, 0) {
		arbiter++
	}
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

package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/bench/batches"
)

// Goal: with one Client and with several, with cold callers and without, calls that overlap are
// served together, each gets the result of its own item, and the report is sound.
func TestCombine_ServesCallsTogether(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{1, 3} {
		cfg := brief(Combine)
		cfg.Nodes, cfg.Hold, cfg.Work = "inprocess:3", time.Millisecond, 10*time.Microsecond
		cfg.Clients, cfg.Callers, cfg.Cold = clients, 24, 2*(clients-1)
		r, err := runUntil(t, 100, cfg)
		require.NoError(t, err)
		requireSound(t, r)
		require.NotNil(t, r.Report)
		require.Greater(t, r.ItemsPerBatch, 1.0, "nobody waits together")
		require.Positive(t, r.Batches)
		require.Positive(t, r.ItemsPerS)
		require.Positive(t, r.WaitMs.Max)
		require.LessOrEqual(t, r.HotBusy, 1.0, "a hot key has one batch at a time")
		require.InEpsilon(t, 0.01, r.Config.WorkMs, 1e-9)
	}
}

// Goal: a call that gets the result of another item is a violation.
func TestCombine_DetectsAResultOfAnotherItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Combine)
		cfg.Callers, cfg.Keys, cfg.Duration = 1, 100, 100*time.Millisecond
		l := newVirtualLoad(cfg, func(int) locker { return nil })
		wrong := false
		l.workers[0].batches = &batches.Calls{Do: func(_ context.Context, _ []string,
			keys []int,
		) (batches.Sale, error) {
			time.Sleep(time.Millisecond)
			if wrong {
				keys = nil
			}
			return batches.Sale{Keys: keys, Begun: time.Now()}, nil
		}}
		m := l.run(t.Context())
		require.Zero(t, m.violations)
		require.Equal(t, released(m.acquired), m.counts)
		wrong = true
		require.NotZero(t, l.run(t.Context()).violations)
	})
}

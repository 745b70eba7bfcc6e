package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/batches"
	"github.com/lockpipe/lockpipe/bench/check"
)

// serveTogether has the callers of each Client served together.
func (l *load) serveTogether(clients []*lockpipe.Client) {
	for _, client := range clients {
		l.batches = append(l.batches, batches.New(client, l.cfg.options(), batches.Config{
			Ownership: func() *check.Ownership { return l.ownership },
			Hold:      l.cfg.Hold, Work: l.cfg.Work,
		}))
	}
	for i, w := range l.workers {
		w.batches = l.batches[i%len(clients)]
	}
}

// order is one round of a caller in the scenario Combine. The result has to be that of its item.
func (w *worker) order(ctx context.Context, due time.Time) {
	w.choose()
	keys, called := slices.Clone(w.chosen), time.Now()
	s, err := w.batches.Do(ctx, w.names, keys)
	returned := time.Now()
	w.recorder.Roll(returned)
	if err != nil && !errors.Is(err, lockpipe.ErrLost) && !errors.Is(err, lockpipe.ErrExpired) {
		w.recordWait(returned.Sub(called), false)
		if !cutOff(ctx, err) {
			w.counts.fail(result{keys: len(keys), err: err})
		}
		return
	}
	if !slices.Equal(s.Keys, keys) {
		w.mixedUp++
	}
	w.recordWait(s.Begun.Sub(called), true)
	w.acquired.Add(uint64(len(keys)))
	w.acquire.Record(returned.Sub(due))
	w.recorder.Acquire(returned.Sub(due))
	w.counts.end(result{keys: len(keys), err: err})
	w.served++
	if s.First {
		w.waits.Use(s.Begun, s.Ended, s.Until)
	}
}

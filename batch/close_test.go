package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// close starts Close, and returns where its result comes.
func (f *fixture) close() <-chan error {
	closed := make(chan error, 1)
	go func() { closed <- f.log.Close(context.Background()) }()
	synctest.Wait()
	return closed
}

// The goal: Close refuses operations, takes follow-ups, and returns when all were read.
func TestClose_WaitsForWhatWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		require.NoError(t, f.log.Close(t.Context()), "nothing was ever taken")
		f = newFixture(t, 3, nil)
		f.append(All, 1)
		f.append(All, 2)
		closed, again := f.close(), f.close()
		_, err := f.log.Append(&op{id: 3, weight: 1}, All)
		require.ErrorIs(t, err, ErrClosed)
		_, err = f.log.Append(&op{id: 4, weight: 1, followUp: true}, All)
		require.NoError(t, err)
		for len(f.read[2]) < 2 || len(f.underWay[2]) > 0 {
			require.Empty(t, closed)
			f.end(0, 1, 2)
		}
		require.NoError(t, <-closed)
		require.NoError(t, <-again)
		require.Equal(t, [][]int{{1}, {2, 4}}, f.read[0])
		require.NoError(t, f.log.Close(t.Context()))
		f.requireEmpty()
	})
}

// The goal: Close is bounded by its context, what is under way continues, and a further Close waits
// for it again.
func TestClose_IsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.append(All, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, f.log.Close(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		closed := f.close()
		require.Empty(t, closed)
		f.end(0)
		require.NoError(t, <-closed)
		f.requireEmpty()
	})
}

// The goal: the last thing that Close waits for may be a cancellation, or a reader that hangs.
func TestClose_ACancellationOrAMissMayBeTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.set(Paused, 0)
		p := f.append(All, 1)[0]
		closed := f.close()
		require.Empty(t, closed)
		require.True(t, f.cancel(p))
		require.NoError(t, <-closed)

		f = newFixture(t, 2, nil)
		f.set(Paused, 1)
		p = f.append(All, 1)[0]
		f.end(0)
		closed = f.close()
		require.Empty(t, closed)
		f.log.Hang(1, upTo(p.Round))
		require.NoError(t, <-closed)
		f.requireEmpty()
	})
}

// The goal: Close waits for all that can be in the air: trips, unread rounds of a slow, a hung and
// a paused reader, an open round, and a cancelled one ends it too.
func TestClose_WithEverythingInTheAir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		f.set(Paused, 2)
		f.append(All, 1)
		f.append(All, 2)
		f.hang(1)
		f.end(0)                    // it takes 2, which is unread at 1 and 2
		last := f.append(All, 3)[0] // its round is open
		closed := f.close()
		require.True(t, f.cancel(last))
		f.end(0)
		f.end(1)
		f.end(1)
		require.Equal(t, f.sealed, f.read[0])
		require.Equal(t, f.sealed, f.read[1])
		require.Empty(t, closed, "the paused reader has two rounds")
		f.set(Out, 2)
		require.NoError(t, <-closed)
		require.Equal(t, [][]int{{1}, {2}}, f.missed[2])
		f.requireEmpty()
	})
}

// The goal: Close returns after Missed has returned, whatever lets the reader miss its rounds.
func TestClose_WaitsForMissed(t *testing.T) {
	for name, miss := range map[string]func(*fixture, *round){
		"out":  func(f *fixture, _ *round) { f.log.SetReader(1, Out) },
		"hang": func(f *fixture, r *round) { f.log.Hang(1, upTo(r)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{}, 1)
				f := newFixture(t, 2, func(c *Config[op, int]) {
					c.Missed = func(int, []*round) { <-gate }
				})
				defer close(gate)
				f.set(Paused, 1)
				r := f.append(All, 1)[0].Round
				f.end(0)
				closed := f.close()
				go miss(f, r)
				synctest.Wait()
				again := f.close()
				require.Empty(t, closed, "Missed is under way")
				require.Empty(t, again)
				gate <- struct{}{}
				require.NoError(t, <-closed)
				require.NoError(t, <-again)
				f.requireEmpty()
			})
		})
	}
}

// The goal: Close waits for the end of sealing.
func TestClose_WaitsForTheEndOfSealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := newFixture(t, 1, func(c *Config[op, int]) { c.Seal = func(*round) { <-gate } })
		f.append(All, 1)
		closed := f.close()
		synctest.Wait()
		require.Empty(t, closed)
		close(gate)
		synctest.Wait()
		f.endAll()
		require.NoError(t, <-closed)
		f.requireEmpty()
	})
}

package batch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The goal: what is cancelled in an open round is in no round. To cancel it again changes nothing.
func TestCancel_BeforeItsRoundIsSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, nil)
		f.append(All, 1)
		places := f.append(All, 2, 3, 4)
		require.True(t, f.cancel(places[1]))
		require.True(t, f.cancel(places[1]))
		require.Equal(t, 2, f.log.Waiting(0))
		f.endAll()
		require.Equal(t, [][]int{{1}, {2, 4}}, f.read[0])
		require.Equal(t, [][]int{{1}, {2, 4}}, f.read[1])
		require.Equal(t, 2, places[0].Round.weight)
		f.requireEmpty()
	})
}

// The goal: what is sealed is not cancelled, whether it is under way or over.
func TestCancel_AfterItsRoundWasSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		p := f.append(All, 1)[0]
		require.False(t, f.cancel(p))
		f.endAll()
		require.False(t, f.cancel(p))
		p.Round.Drop()
		require.Nil(t, p.Round.first[0])
		require.Empty(t, p.Round.Ops())
		require.False(t, f.cancel(p))
		f.requireEmpty()
	})
}

// The goal: a round that lost all its operations is not sealed, and the log continues.
func TestCancel_AllOfARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.append(All, 1)
		for _, p := range f.append(All, 2, 3) {
			require.True(t, f.cancel(p))
		}
		f.end(0)
		require.Equal(t, [][]int{{1}}, f.sealed)
		f.append(All, 4)
		require.Equal(t, [][]int{{1}, {4}}, f.read[0])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: what is cancelled makes room for others: in its round, and within the Limit.
func TestCancel_MakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) { c.Limit = 3 })
		f.append(All, 1)
		two := &op{id: 2, weight: 9}
		heavy, err := f.log.Append(two, All)
		require.NoError(t, err)
		f.append(All, 3)
		require.True(t, f.log.Cancel(heavy, two))
		for id := 4; id < 10; id++ {
			p := f.append(All, id)[0]
			require.True(t, f.cancel(p))
		}
		ten := &op{id: 10, weight: 1, followUp: true}
		follow, err := f.log.Append(ten, All)
		require.NoError(t, err)
		require.True(t, f.log.Cancel(follow, ten))
		f.append(All, 11, 12)
		_, err = f.log.Append(&op{id: 13, weight: 1}, All)
		require.ErrorIs(t, err, ErrOverloaded)
		f.endAll()
		require.Equal(t, [][]int{{1}, {3, 11, 12}}, f.read[0])
		f.requireEmpty()
	})
}

// The goal: if a reader hangs, what is cancelled behind it does not pile up.
func TestCancel_CancelledOperationsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.append(All, 1)
		f.append(All, 2)
		for id := range 1000 {
			require.True(t, f.cancel(f.append(All, id)[0]))
			require.Equal(t, 1, f.log.Waiting(0))
			require.LessOrEqual(t, len(f.log.open), 2)
			for _, r := range f.log.open {
				require.LessOrEqual(t, cap(r.ops), 4*f.cfg.MaxWeight)
			}
		}
		f.endAll()
		require.Equal(t, [][]int{{1}, {2}}, f.read[0])
		f.requireEmpty()
	})
}

// The goal: an open round that lost all its operations is ended, the last one too, because nothing
// may come after it. What its owner opened for it does not stay.
func TestCancel_AnEmptiedRoundIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) { c.MaxWeight = 2 })
		f.append(All, 1)
		places := f.append(All, 2, 3, 4, 5, 6) // three rounds
		require.Equal(t, 4, f.opened)
		for i, p := range places {
			require.True(t, f.cancel(p))
			require.Equal(t, []int{0, 1, 1, 2, 3}[i], f.emptied)
		}
		p := f.append(All, 7)[0]
		require.Equal(t, 5, p.Round.State)
		f.endAll()
		require.Equal(t, [][]int{{1}, {7}}, f.read[0])
		require.Equal(t, f.opened, f.emptied+len(f.sealed))
		f.requireEmpty()
	})
}

// The goal: if a cancellation ends a round, the next one may be ready.
func TestCancel_TheNextRoundMayBeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, func(c *Config[op, int]) { c.MaxWeight = 1 })
		f.append(All, 1)
		f.end(0)
		busy := f.append(bits(1), 2)[0]
		f.append(bits(0), 3)
		require.Len(t, f.sealed, 1, "the first round waits for reader 1")
		require.True(t, f.cancel(busy))
		synctest.Wait()
		require.Equal(t, [][]int{{1}, {3}}, f.read[0])
		f.endAll()
		f.requireEmpty()
	})
}

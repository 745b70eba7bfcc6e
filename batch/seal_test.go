package batch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The goal: a round is sealed when a quorum of readers is ready, not before, and the others get it
// too.
func TestSeal_WhenAQuorumIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 5, nil)
		f.append(All, 1)
		for i := range 5 {
			require.Equal(t, [][]int{{1}}, f.read[i])
		}
		f.append(All, 2)
		f.end(0, 1)
		require.Len(t, f.sealed, 1, "two of five are ready")
		f.append(All, 3)
		f.end(4)
		require.Equal(t, [][]int{{1}, {2, 3}}, f.sealed)
		for _, i := range []int{0, 1, 4} {
			require.Equal(t, [][]int{{1}, {2, 3}}, f.read[i])
		}
		require.Equal(t, [][]int{{1}}, f.read[2])
		require.Equal(t, 2, f.log.Waiting(2))
		f.end(2, 3)
		require.Equal(t, f.sealed, f.read[2])
		require.Equal(t, f.sealed, f.read[3])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a reader that still has a round to read is not ready for another one.
func TestSeal_AReaderWithUnreadRoundsIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		f.append(All, 1)
		f.append(All, 2)
		f.end(0, 1) // both take 2
		f.append(All, 3)
		f.end(2) // takes 2 as well
		require.Equal(t, [][]int{{1}, {2}}, f.read[2])
		f.end(0)
		require.Len(t, f.sealed, 2)
		f.end(2)
		require.Equal(t, [][]int{{1}, {2}, {3}}, f.sealed)
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: if fewer than a quorum read, all of these are enough, and all are necessary. Those that
// are paused get the round later.
func TestSeal_FewerReadersAreEnoughIfNoMoreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 5, nil)
		f.set(Paused, 0, 1)
		f.set(Out, 2)
		f.append(All, 1)
		require.Equal(t, [][]int{{1}}, f.sealed)
		f.append(All, 2)
		f.end(3)
		require.Len(t, f.sealed, 1)
		f.end(4)
		require.Len(t, f.sealed, 2)
		require.Empty(t, f.read[0])
		require.Equal(t, f.sealed, f.missed[2])
		f.set(Reading, 0)
		require.Equal(t, [][]int{{1}, {2}}, f.read[0])
		f.endAll()
		f.set(Out, 1)
		require.Equal(t, f.sealed, f.missed[1])
		f.requireEmpty()
	})
}

// The goal: a state that changes may be what a round waited for: a busy reader leaves, or a further
// one comes.
func TestSeal_AStateThatChangesIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []ReaderState{Out, Paused} {
			f := newFixture(t, 3, nil)
			f.append(All, 1)
			f.append(All, 2)
			f.end(0)
			require.Len(t, f.sealed, 1)
			f.set(s, 1, 2)
			require.Len(t, f.sealed, 2, "all that read are ready")
			f.append(All, 3)
			require.Len(t, f.sealed, 2)
			f.set(Reading, 1, 2)
			require.Len(t, f.sealed, 2, "their trips are under way")
			f.endAll()
			require.Len(t, f.sealed, 3)
			f.requireEmpty()
		}
	})
}

// The goal: readers that hang do not count for a quorum, until one of their trips ends. If all
// hang, a round waits.
func TestSeal_ReadersThatHangDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 5, nil)
		f.append(All, 1)
		f.append(All, 2)
		f.end(0, 1)
		require.Len(t, f.sealed, 1)
		f.hang(2, 3, 4)
		require.Len(t, f.sealed, 2)
		f.append(All, 3)
		f.hang(0, 1)
		require.Len(t, f.sealed, 2, "all hang")
		f.end(3)
		require.Equal(t, [][]int{{1}, {2}}, f.read[3])
		require.Len(t, f.sealed, 2, "it has read what it had not, and is busy")
		f.end(3)
		require.Len(t, f.sealed, 3, "it does not hang any more, and it is the only one")
		f.endAll()
		f.append(All, 4)
		f.hang(0) // with a trip under way
		f.endAll()
		f.hang(0) // without one: it owes nothing
		f.append(All, 5)
		require.Equal(t, []int{5}, f.read[0][4])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: if all readers are Out, a round is sealed at once, and all miss it.
func TestSeal_AllMissARoundIfAllAreOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		f.set(Out, 0, 1, 2)
		f.append(All, 1)
		f.append(All, 2)
		for i := range 3 {
			require.Empty(t, f.read[i])
			require.Equal(t, [][]int{{1}, {2}}, f.missed[i])
		}
		f.requireEmpty()
	})
}

// The goal: while no reader reads, a round waits for one, unless so many are Out that no quorum is
// possible.
func TestSeal_ItIsOfNoUseToWaitWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 5, nil)
		f.set(Paused, 0, 1, 2)
		f.set(Out, 3, 4)
		f.append(All, 1)
		require.Empty(t, f.sealed)
		f.set(Out, 2)
		require.Equal(t, [][]int{{1}}, f.sealed)
		require.Equal(t, [][]int{{1}}, f.missed[2])
		require.Empty(t, f.missed[0], "it is only paused")
		f.set(Reading, 0, 1)
		require.Equal(t, [][]int{{1}}, f.read[0])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a round goes to the readers that one of its operations is for, and to no other. It
// waits for its own readers only.
func TestSeal_ARoundIsForItsOwnReadersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 5, nil)
		f.append(All, 1)
		f.append(bits(1), 2)
		f.end(0, 2, 3)
		require.Len(t, f.sealed, 1, "reader 1 is busy")
		f.end(1)
		require.Equal(t, [][]int{{1}, {2}}, f.sealed)
		f.append(bits(3), 3)
		require.Equal(t, [][]int{{1}, {2}, {3}}, f.sealed, "reader 3 is ready")
		f.append(bits(1), 4)
		f.append(bits(4), 5)
		f.end(4)
		require.Len(t, f.sealed, 3, "4 and 5 share a round, and reader 1 is busy")
		f.end(1)
		require.Equal(t, []int{4, 5}, f.sealed[3])
		f.endAll()
		for i, want := range [][][]int{
			{{1}}, {{1}, {2}, {4, 5}}, {{1}}, {{1}, {3}}, {{1}, {4, 5}},
		} {
			require.Equal(t, want, f.read[i], "reader %d", i)
			require.Empty(t, f.missed[i])
		}
		f.requireEmpty()
	})
}

// The goal: an operation that is only for a reader that is Out is missed at once. If that reader is
// paused, it waits.
func TestSeal_ARoundForOneReaderFollowsItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 5, nil)
		f.set(Out, 1)
		f.set(Paused, 2)
		f.append(bits(1), 1)
		require.Equal(t, [][]int{{1}}, f.missed[1])
		f.append(bits(2), 2)
		require.Len(t, f.sealed, 1)
		f.set(Reading, 2)
		require.Equal(t, [][]int{{2}}, f.read[2])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a state that changes while a round is being sealed counts: the reader that went Out
// meanwhile misses the round, and the one that paused keeps it.
func TestSeal_AStateThatChangesMeanwhileCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fixture
		f = newFixture(t, 3, func(c *Config[op, int]) {
			c.Seal = func(*round) {
				f.log.SetReader(1, Out)
				f.log.SetReader(2, Paused)
			}
		})
		f.append(All, 1)
		require.Equal(t, [][]int{{1}}, f.read[0])
		require.Equal(t, [][]int{{1}}, f.missed[1])
		require.Empty(t, f.read[2])
		f.set(Reading, 2)
		require.Equal(t, [][]int{{1}}, f.read[2])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: no round is sealed if its readers stopped reading before the sealer ran.
func TestSeal_NotIfNoQuorumIsReadyAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.set(Paused, 0)
		f.append(All, 1)
		f.log.mu.Lock()
		f.log.wake(&f.log.sealer)
		f.log.mu.Unlock()
		synctest.Wait()
		require.Empty(t, f.sealed)
		f.set(Reading, 0)
		require.Equal(t, [][]int{{1}}, f.read[0])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: what comes while a round is being sealed does not wait for longer than that: if readers
// are ready, the next round is sealed.
func TestSeal_TheNextRoundFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fixture
		f = newFixture(t, 2, func(c *Config[op, int]) {
			c.Seal = func(r *round) {
				f.seal(r)
				if id := r.Ops()[0].id; id < 3 {
					_, err := f.log.Append(&op{id: id + 1, weight: 1}, bits(id%2))
					require.NoError(t, err)
				}
			}
		})
		f.append(bits(0), 1)
		require.Equal(t, [][]int{{1}, {2}}, f.sealed)
		f.end(0)
		require.Equal(t, [][]int{{1}, {2}, {3}}, f.sealed)
		f.endAll()
		f.requireEmpty()
	})
}

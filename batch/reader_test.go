package batch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The goal: no more than Window trips of a reader are under way. A further one starts only for
// OverlapAt, for twice as much while two are under way, and for four times as much while three are.
func TestReader_TripsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) {
			c.Window, c.OverlapAt = 4, func(int) int { return 2 }
		})
		f.append(All, 1)
		f.append(All, 2, 3, 4)
		require.Len(t, f.read[0], 1, "the first trip is not sent")
		f.sent(0)
		require.Equal(t, [][]int{{1}, {2, 3, 4}}, f.read[0])
		f.sent(0)
		f.append(All, 5, 6, 7)
		require.Len(t, f.read[0], 2, "three are too few for a third trip")
		f.append(All, 8)
		require.Len(t, f.read[0], 3)
		f.sent(0)
		f.append(All, 9, 10, 11, 12, 13, 14, 15)
		require.Len(t, f.read[0], 3, "seven are too few for a fourth trip")
		f.append(All, 16)
		require.Len(t, f.read[0], 4)
		f.sent(0)
		for id := range 40 {
			f.append(All, 17+id)
		}
		require.Len(t, f.read[0], 4, "the window is full")
		f.endAll()
		require.Equal(t, f.sealed, f.read[0])
		f.requireEmpty()
	})
}

// The goal: while one trip that is heavier than usual is under way, further ones start only as long
// as less than a full window is.
func TestReader_TheWeightUnderWayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) { c.Window = 3 })
		f.appendWeights(30)
		f.sent(0)
		f.appendWeights(7)
		require.Equal(t, [][]int{{30}}, f.read[0], "a full window is under way")
		f.end(0)
		require.Equal(t, [][]int{{30}, {7}}, f.read[0])
		f.sent(0)
		f.appendWeights(24)
		require.Equal(t, [][]int{{30}, {7}, {24}}, f.read[0])
		f.sent(0)
		f.appendWeights(2)
		require.Len(t, f.read[0], 3, "31 of 30")
		f.end(0)
		require.Equal(t, [][]int{{30}, {7}, {24}, {2}}, f.read[0])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: trips of one reader that are under way together begin in order, however late each of
// them is sent, and in whatever order they end.
func TestReader_TripsBeginInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, func(c *Config[op, int]) { c.Window = 3 })
		f.append(All, 1)
		first := f.underWay[0][0]
		f.sent(0)
		f.sent(1)
		f.append(All, 2)
		f.append(All, 3)
		require.Equal(t, [][]int{{1}, {2}}, f.read[0], "the second trip is not sent")
		f.sent(1) // now reader 1 is ready for 3, but one of two is no quorum
		require.Equal(t, [][]int{{1}, {2}}, f.sealed)
		f.endTrip(first)
		require.Equal(t, [][]int{{1}, {2}}, f.read[0], "the first trip has ended, not the second")
		f.sent(0)
		f.append(All, 4)
		f.endAll()
		for i := range 2 {
			require.Equal(t, f.sealed, f.read[i])
			require.Equal(t, [][]int{{1}, {2}, {3, 4}}, f.read[i])
		}
		f.requireEmpty()
	})
}

// The goal: a trip that ends before Read has returned does not let the next one start.
func TestReader_ATripIsSentWhenReadReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) { c.Window = 3 })
		f.append(All, 1)
		own := f.underWay[0][0]
		own.End()
		f.append(All, 2)
		require.Equal(t, [][]int{{1}}, f.read[0])
		f.underWay[0] = nil
		f.sendTrip(own)
		require.Equal(t, [][]int{{1}, {2}}, f.read[0])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a reader that is slower than the others reads several rounds in one trip, up to
// MaxWeight. One that is far behind takes four times as much, and the trip says so.
func TestReader_ATripTakesSeveralRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		f.append(All, 0)
		pass := func(weight, rounds int) { // readers 0 and 1 read them
			for range rounds {
				f.appendWeights(weight)
				f.end(0, 1)
			}
		}
		pass(3, 5)
		f.end(2)
		require.Equal(t, [][]int{{3}, {3}, {3}}, f.underWay[2][0].rounds, "the fourth is too much")
		require.False(t, f.underWay[2][0].MustLook())
		f.end(2)
		require.Equal(t, [][]int{{3}, {3}}, f.underWay[2][0].rounds)
		pass(4, 10)
		f.end(2)
		require.Len(t, f.underWay[2][0].rounds, 2, "40 are not more than four full trips")
		require.False(t, f.underWay[2][0].MustLook())
		pass(11, 3) // 65 are unread
		f.end(2)
		require.True(t, f.underWay[2][0].MustLook())
		require.Len(t, f.underWay[2][0].rounds, 8, "32, and the next one is 11")
		require.Equal(t, 32, f.log.readers[2].aloft)
		f.end(2)
		require.False(t, f.underWay[2][0].MustLook())
		require.Len(t, f.underWay[2][0].rounds, 1, "alone it may be heavier")
		f.endAll()
		require.Equal(t, f.sealed, f.read[2])
		f.requireEmpty()
	})
}

// The goal: what waits for a reader is bounded by Limit. If it is more, the reader misses that, and
// reads what comes then.
func TestReader_MissesWhatIsUnreadIfThatIsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, func(c *Config[op, int]) { c.Limit = 20 })
		for id := range 50 {
			f.append(All, id)
			if id > 0 {
				f.end(0, 1)
			}
			require.LessOrEqual(t, f.log.readers[2].weight, 20)
		}
		require.NotEmpty(t, f.missed[2])
		require.Empty(t, f.missed[0])
		missed := len(f.missed[2])
		f.endAll()
		require.Len(t, f.missed[2], missed)
		all := append(append([][]int{{0}}, f.missed[2]...), f.read[2][1:]...)
		require.Equal(t, f.sealed, all, "it has missed the oldest rounds")
		f.requireEmpty()

		f = newFixture(t, 2, func(c *Config[op, int]) { c.Limit, c.Quorum = 20, 1 })
		f.appendWeights(1)
		f.end(0)
		f.appendWeights(50)
		f.end(0)
		require.Empty(t, f.missed[1], "a single round may be heavier")
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a reader that is Out misses what it has not read and what comes. What it reads already
// continues. When it is back, it reads what comes then.
func TestReader_OutMissesWhatIsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		f.append(All, 1)
		f.append(All, 2)
		f.end(0, 1)
		f.set(Out, 2)
		require.Equal(t, [][]int{{2}}, f.missed[2])
		f.append(All, 3)
		f.end(0, 1)
		require.Equal(t, [][]int{{2}, {3}}, f.missed[2])
		require.Len(t, f.underWay[2], 1)
		f.set(Reading, 2)
		f.append(All, 4)
		f.end(0, 1)
		require.Equal(t, [][]int{{1}}, f.read[2], "its trip is still under way")
		f.end(2)
		require.Equal(t, [][]int{{1}, {4}}, f.read[2])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a reader that is paused reads nothing, keeps everything, and reads it when it can.
func TestReader_PausedKeepsItsRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		f.append(All, 1)
		f.set(Paused, 2)
		f.append(All, 2)
		f.endAll()
		f.append(All, 3)
		f.endAll()
		require.Equal(t, [][]int{{1}}, f.read[2])
		require.Equal(t, 2, f.log.Waiting(2))
		f.set(Reading, 2)
		require.Equal(t, [][]int{{2}, {3}}, f.underWay[2][0].rounds)
		f.endAll()
		require.Empty(t, f.missed[2])
		f.requireEmpty()
	})
}

// The goal: no trip of a reader that hangs starts before one that is under way ends.
func TestReader_HangsUntilATripEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, func(c *Config[op, int]) { c.Window = 3 })
		f.append(All, 1)
		for i := range 3 {
			f.sent(i)
		}
		f.hang(2)
		f.append(All, 2)
		require.Equal(t, [][]int{{1}, {2}}, f.read[0])
		require.Equal(t, [][]int{{1}}, f.read[2])
		f.end(2)
		require.Equal(t, [][]int{{1}, {2}}, f.read[2])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a reader that hangs misses the rounds that are over, and no others. It does not miss a
// round that it has read, or that is open.
func TestReader_ThatHangsMissesWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		var rounds []*round
		for id := range 4 {
			rounds = append(rounds, f.append(All, id)[0].Round)
			if id > 0 {
				f.end(0, 1)
			}
		}
		open := f.append(All, 4)[0].Round
		f.log.Hang(2, upTo(open))
		f.log.Hang(2, upTo(rounds[0]))
		require.Empty(t, f.missed[2])
		f.log.Hang(2, only(rounds[2])) // it is still to read an older one
		f.log.Hang(2, upTo(rounds[2]))
		require.Equal(t, [][]int{{2}, {1}}, f.missed[2])
		f.log.Hang(2, upTo(rounds[1]))
		require.Len(t, f.missed[2], 2, "it has missed that already")
		f.endAll()
		require.Equal(t, [][]int{{0}, {3}, {4}}, f.read[2])
		f.log.Hang(2, upTo(open))
		require.Len(t, f.missed[2], 2, "it has read that already")
		f.requireEmpty()
	})
}

// The goal: a trip that begins after its reader has missed a round knows that, if the trip carries
// an older round.
func TestReader_MustLookIfItMissedNewerRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		f.append(All, 1)
		f.append(All, 2)
		f.end(0, 1)
		newer := f.append(All, 3)[0].Round
		f.end(0, 1)
		f.log.Hang(2, only(newer))
		f.end(2)
		require.Equal(t, [][]int{{2}}, f.underWay[2][0].rounds)
		require.True(t, f.underWay[2][0].MustLook())
		f.end(0, 1, 2)
		f.append(All, 4)
		require.Equal(t, [][]int{{4}}, f.underWay[2][0].rounds)
		require.False(t, f.underWay[2][0].MustLook())
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: a trip knows whether its reader has missed rounds since the trip took its own, however
// they were missed.
func TestReader_MustLook(t *testing.T) {
	for name, miss := range map[string]func(f *fixture, newest *round){
		"hangs":    func(f *fixture, newest *round) { f.log.Hang(2, upTo(newest)) },
		"out":      func(f *fixture, _ *round) { f.set(Out, 2) },
		"too much": func(f *fixture, _ *round) { f.appendWeights(30); f.end(0, 1) },
		"directly": func(f *fixture, _ *round) {
			f.set(Paused, 0, 1)
			f.endAll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, func(c *Config[op, int]) { c.Limit = 20 })
				f.append(All, 1)
				if name == "directly" { // it has nothing unread when it goes Out
					f.set(Out, 2)
					require.False(t, f.underWay[2][0].MustLook())
					f.append(All, 2)
					f.end(0, 1)
					require.True(t, f.underWay[2][0].MustLook())
					f.set(Reading, 2)
					f.endAll()
					return
				}
				f.append(All, 2)
				newest := f.append(All, 3)[0].Round
				f.end(0, 1)
				require.False(t, f.underWay[2][0].MustLook())
				miss(f, newest)
				require.True(t, f.underWay[2][0].MustLook())
				require.False(t, f.underWay[0][0].MustLook())
				f.set(Reading, 2)
				f.endAll()
				f.append(All, 9)
				require.False(t, f.underWay[2][0].MustLook(), "a later trip has missed nothing")
				f.endAll()
				f.requireEmpty()
			})
		})
	}
}

// The goal: OverlapAt is about all that waits for the reader. Operations that do not fill a round
// to the brim do not keep it from a further trip, and neither does a threshold that is greater than
// a round.
func TestReader_AllThatWaitsCountsForAFurtherTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) {
			c.Window, c.OverlapAt = 4, func(int) int { return 10 }
		})
		f.appendWeights(1)
		f.sent(0)
		f.appendWeights(8)
		require.Equal(t, [][]int{{1}}, f.read[0], "8 of 10")
		f.appendWeights(7)
		require.Equal(t, [][]int{{1}, {8}}, f.read[0], "15 waited")
		f.sent(0)
		f.appendWeights(6, 3)
		require.Len(t, f.read[0], 2, "16 of 20")
		f.appendWeights(4)
		require.Equal(t, [][]int{{1}, {8}, {7}}, f.read[0], "20 waited")
		f.endAll()
		require.Equal(t, [][]int{{1}, {8}, {7}, {6, 3}, {4}}, f.read[0])
		f.requireEmpty()
	})
}

// The goal: what waits for a reader that is behind counts too, and it counts at once.
func TestReader_UnreadAndOpenRoundsCountTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, func(c *Config[op, int]) {
			c.Window, c.OverlapAt = 2, func(int) int { return 6 }
		})
		f.append(All, 1)
		f.sent(2)
		f.end(0, 1)
		f.append(All, 2)
		require.Equal(t, [][]int{{1}}, f.read[2], "1 of 6")
		f.append(All, 3, 4, 5, 6)
		require.Equal(t, [][]int{{1}}, f.read[2], "5 of 6")
		f.append(All, 7)
		require.Equal(t, [][]int{{1}, {2}}, f.read[2])
		f.endAll()
		require.Equal(t, [][]int{{1}, {2}, {3, 4, 5, 6, 7}}, f.read[2])
		f.requireEmpty()
	})
}

package lockpipe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// contender is a process of the simulated competition.
type contender struct {
	known rivalry
	since time.Duration // when its wait began
	lost  int
	locks int
	tries int
}

// compete lets n processes with nothing else to do take the keys in turn, for so many turns of a
// millisecond and half of one in between: at each release one of those whose rest is over gets
// them, and the others try in vain; where none is, the first whose rest ends.
func compete(n, turns int, rests bool) (all []contender, idle time.Duration) {
	const hold, gap = time.Millisecond, 500 * time.Microsecond
	random := rand.New(rand.NewPCG(uint64(n), 1))
	all = make([]contender, n)
	start := time.Now()
	now := time.Duration(0)
	for range turns {
		var active []*contender
		next := &all[0]
		for i := range all {
			c := &all[i]
			if !rests {
				c.known.rest = 0
			}
			if c.since+c.known.rest <= now {
				active = append(active, c)
			}
			if c.since+c.known.rest < next.since+next.known.rest {
				next = c
			}
		}
		free := len(active) == 0
		if free {
			idle += next.since + next.known.rest - now
			now = next.since + next.known.rest
			active = []*contender{next}
		}
		winner := active[random.IntN(len(active))]
		for _, c := range active {
			c.tries++
			c.lost++
		}
		now += gap
		var contended bool
		winner.known, contended = winner.known.after(contest{
			"k", now - winner.since,
			winner.known.rest, winner.lost - 1, free,
		}, start.Add(now))
		if !contended {
			winner.known = rivalry{}
		}
		now += hold
		winner.since, winner.lost = now, 0
		winner.locks++
	}
	return all, idle
}

// The goal: of many processes that want the same keys all the time, few try at each release, each
// gets its share, and the keys are seldom left unused for that.
func TestContendersRestUntilItIsTheirTurn(t *testing.T) {
	for _, n := range []int{2, 4, 8, 16, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			const turns = 5000
			all, idle := compete(n, turns, true)
			tries, least := 0, turns
			for _, c := range all {
				tries += c.tries
				least = min(least, c.locks)
			}
			require.Less(t, float64(tries)/turns, 1.5+0.25*float64(n), "tries for each lock")
			require.Greater(t, least, turns/n/2, "the least share")
			require.Less(t, idle, turns*time.Millisecond*3/4)
			all, _ = compete(n, turns, false)
			before := 0
			for _, c := range all {
				before += c.tries
			}
			require.Greater(t, before, turns*(n-1), "without rests everybody who waits tries "+
				"each time")
		})
	}
}

// The goal: where the others are gone, that is noticed after few turns, and a rest is never long.
func TestRestsEndWithTheCompetition(t *testing.T) {
	now := time.Now()
	known, contended := rivalry{}.after(contest{key: "k", took: time.Hour, lost: 3}, now)
	require.True(t, contended)
	require.Equal(t, maxRest, known.rest)
	waste, turns := time.Duration(0), 0
	for contended {
		waste += known.rest
		known, contended = known.after(contest{
			key: "k", took: known.rest + time.Millisecond,
			rest: known.rest, free: true,
		}, now)
		turns++
	}
	require.Equal(t, maxFree, turns)
	require.Less(t, waste, 5*maxRest)
}

// The goal: what is remembered of rivals is forgotten in time, and bounded.
func TestRivalsAreForgotten(t *testing.T) {
	var r rivals
	r.won("room", contest{took: time.Second})
	require.False(t, r.some.Load(), "no key was another's")
	for i := range 3 * maxRivalries {
		r.won(fmt.Sprint(i), contest{key: "k", took: time.Second, lost: 1})
		require.LessOrEqual(t, len(r.rooms), maxRivalries)
	}
	last := fmt.Sprint(3*maxRivalries - 1)
	require.Equal(t, maxRest, r.of(last).rest)
	old := r.rooms[last]
	old.seen = old.seen.Add(-rivalMemory - time.Millisecond)
	r.rooms[last] = old
	require.Zero(t, r.of(last))
}

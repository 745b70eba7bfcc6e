package waiting

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: a caller backs off for 85 % of its last wait, less one hold. It backs off for at most
// 150 ms, and never for less than nothing.
func TestBackoff_IsAPartOfTheLastWait(t *testing.T) {
	for _, row := range []struct{ took, hold, want time.Duration }{
		{0, 0, 0},
		{ms, ms, 0},
		{ms, 2 * ms, 0},
		{21 * ms, ms, 17 * ms},
		{100 * ms, 0, 85 * ms},
		{time.Hour, time.Second, 150 * ms},
	} {
		require.Equal(t, row.want, backoff(row.took, row.hold), "%v", row)
	}
}

// The goal: one hold is the time that a caller contended, over the holds in it. Of several the mean
// counts, in which the last one has a sixth.
func TestState_HasTheMeanHold(t *testing.T) {
	first := State{}.after(Contended{Key: "k", Took: 50 * ms, Backoff: 30 * ms, LostRaces: 3},
		at(0))
	require.Equal(t, State{
		Key: "k", Backoff: backoff(50*ms, 5*ms), meanHold: 5 * ms, updated: at(0),
	}, first)
	second := first.after(Contended{Key: "other", Took: 11 * ms, WasFree: true}, at(time.Second))
	require.Equal(t, State{
		Key: "other", Backoff: backoff(11*ms, 6*ms), meanHold: 6 * ms, freeStreak: 1,
		updated: at(time.Second),
	}, second)
	require.Zero(t, second.after(Contended{Key: "k", Took: ms}, at(0)).freeStreak)
}

// The goal: a caller notices after eight holds that the others are gone, and does not back off for
// long until then.
func TestContention_EndsWhenTheKeysAreFree(t *testing.T) {
	var r Contention
	require.Equal(t, State{}, r.Lookup("k", at(0)))
	r.Record(Contended{Key: "k", Took: time.Hour, LostRaces: 3}, at(0))
	require.True(t, r.Any())
	require.Equal(t, maxBackoff, r.Lookup("k", at(0)).Backoff)
	require.Equal(t, State{}, r.Lookup("m", at(0)), "another key")
	waste := time.Duration(0)
	for range 8 {
		known := r.Lookup("k", at(0))
		require.Equal(t, "k", known.Key)
		waste += known.Backoff
		r.Record(Contended{
			Key: "k", Took: known.Backoff + ms, Backoff: known.Backoff, WasFree: true,
		}, at(0))
	}
	require.Equal(t, State{}, r.Lookup("k", at(0)))
	require.False(t, r.Any())
	require.Less(t, waste, 5*maxBackoff)
}

// The goal: what is remembered of contention is forgotten in a second, and bounded.
func TestContention_IsForgotten(t *testing.T) {
	var r Contention
	for i := range 3 * maxTracked {
		r.Record(Contended{Key: fmt.Sprint(i), Took: second, LostRaces: 1}, at(0))
		require.LessOrEqual(t, len(r.states), maxTracked)
	}
	last := fmt.Sprint(3*maxTracked - 1)
	require.Equal(t, maxBackoff, r.Lookup(last, at(second)).Backoff)
	require.Equal(t, State{}, r.Lookup(last, at(second+1)))
	for i := range maxTracked {
		r.Record(Contended{Key: fmt.Sprint("new", i), Took: second}, at(2*second))
	}
	require.Equal(t, "new0", r.Lookup("new0", at(2*second)).Key, "the outdated went first")
}

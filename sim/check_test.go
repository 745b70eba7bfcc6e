package sim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// held makes a hold of key from one second to another.
func held(h *history, who string, from, end float64, extensions ...span) *hold {
	at := func(s float64) time.Time { return h.start.Add(time.Duration(s * float64(time.Second))) }
	b := &hold{
		history: h, who: who, keys: []string{"k"}, called: at(from - 0.5), from: at(from),
		end: at(end), released: at(end), extension: extensions,
	}
	h.holds = append(h.holds, b)
	return b
}

// The goal: what overlaps is found, whichever hold contains the other, and what only touches is
// not.
func TestOverlapsAreFound(t *testing.T) {
	for _, c := range []struct {
		times [][2]float64
		found bool
	}{
		{[][2]float64{{1, 2}, {2, 3}, {3, 3.5}}, false},
		{[][2]float64{{3, 4}, {1, 2}, {2, 3}}, false},
		{[][2]float64{{1, 2}, {1.9, 3}}, true},
		{[][2]float64{{1, 9}, {2, 3}}, true},
		{[][2]float64{{1, 9}, {9, 10}, {8.5, 8.6}}, true},
	} {
		h := &history{start: time.Now()}
		for i, b := range c.times {
			held(h, fmt.Sprint(i), b[0], b[1])
		}
		h.disjoint()
		require.Equal(t, c.found, len(h.violations) > 0, "disjoint: %v", c.times)
		h.violations = nil
		h.linearizable()
		require.Equal(t, c.found, len(h.violations) > 0, "porcupine: %v", c.times)
	}
}

// The goal: a fence is found that is the same as an earlier one or below it, whatever came between
// and whatever the order of the notes.
func TestFencesThatDoNotRiseAreFound(t *testing.T) {
	for _, c := range []struct {
		fences []int64
		found  bool
	}{
		{[]int64{5, 6, 9}, false},
		{[]int64{5, 0, 6, 0}, false},
		{[]int64{5, 5}, true},
		{[]int64{5, 0, 4}, true},
		{[]int64{5, 9, 7}, true},
		{[]int64{9, 5, 6}, true},
	} {
		h := &history{start: time.Now()}
		for i, f := range c.fences {
			held(h, fmt.Sprint(i), float64(i), float64(i+1)).fence = f
		}
		slices.Reverse(h.holds)
		h.rising()
		require.Equal(t, c.found, len(h.violations) > 0, "%v", c.fences)
	}
}

// The goal: an extension is found that was confirmed although another had held the key meanwhile,
// and one before that is not.
func TestAnExtensionAcrossAnothersHoldIsFound(t *testing.T) {
	h := &history{start: time.Now()}
	at := func(s int) time.Time { return h.start.Add(time.Duration(s) * time.Second) }
	mine := held(h, "mine", 1, 9, span{at(2), at(3)})
	held(h, "other", 4, 5)
	h.unconfirmable()
	require.Empty(t, h.violations)
	mine.extension = append(mine.extension, span{at(6), at(7)})
	h.unconfirmable()
	require.Len(t, h.violations, 1)
}

// The goal: an error that is not documented is found, and one that is has its name.
func TestUndocumentedErrorsAreFound(t *testing.T) {
	r := &run{history: &history{start: time.Now()}}
	require.Equal(t, "ok", r.name(nil, acquiring))
	require.Equal(t, "held", r.name(fmt.Errorf("waited: %w", lockpipe.ErrHeld), acquiring))
	require.Equal(t, "lost", r.name(lockpipe.ErrLost, extending))
	require.Empty(t, r.history.violations)
	r.name(errors.New("surprise"), acquiring)
	r.name(lockpipe.ErrReleased, acquiring)
	require.Len(t, r.history.violations, 2)
}

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

// addHold adds a hold of the key k from one second to another.
func addHold(h *history, who string, from, end float64, extensions ...span) *hold {
	at := func(s float64) time.Time { return h.start.Add(time.Duration(s * float64(time.Second))) }
	b := &hold{
		history: h, who: who, keys: []string{"k"}, called: at(from - 0.5), from: at(from),
		end: at(end), released: at(end), extensions: extensions,
	}
	h.holds = append(h.holds, b)
	return b
}

// The goal: holds that overlap are found, also if one contains the other. Holds that only touch are
// not.
func TestCheck_OverlapIsFound(t *testing.T) {
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
		h := newHistory()
		for i, b := range c.times {
			addHold(h, fmt.Sprint(i), b[0], b[1])
		}
		h.checkExclusion()
		require.Equal(t, c.found, len(h.violations) > 0, "checkExclusion: %v", c.times)
		h.violations = nil
		h.checkLinearizable()
		require.Equal(t, c.found, len(h.violations) > 0, "porcupine: %v", c.times)
	}
}

// The goal: a fence is found that is not above an earlier one. Holds in between and the order of
// the records do not matter.
func TestCheck_FenceThatDoesNotRiseIsFound(t *testing.T) {
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
		h := newHistory()
		for i, f := range c.fences {
			addHold(h, fmt.Sprint(i), float64(i), float64(i+1)).fence = f
		}
		slices.Reverse(h.holds)
		h.checkFences()
		require.Equal(t, c.found, len(h.violations) > 0, "%v", c.fences)
	}
}

// The goal: an extension is found that was confirmed although another holder had the key meanwhile.
// An extension before that is not.
func TestCheck_ExtensionAcrossAnotherHoldIsFound(t *testing.T) {
	h := newHistory()
	at := func(s int) time.Time { return h.start.Add(time.Duration(s) * time.Second) }
	mine := addHold(h, "mine", 1, 9, span{at(2), at(3)})
	addHold(h, "other", 4, 5)
	h.checkExtensions()
	require.Empty(t, h.violations)
	mine.extensions = append(mine.extensions, span{at(6), at(7)})
	h.checkExtensions()
	require.Len(t, h.violations, 1)
}

// The goal: an extension is found that counts a node it has refilled itself, or too many that an
// extension before it is known to have refilled. What the client can't know is no violation: a node
// that took the token late, or whose answer did not arrive.
func TestCheck_AnExtensionMayBeConfirmedByNodesThatTookTheTokenLate(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	taken := func(node, sent, done, answered int) *taking {
		v := &taking{node: node, sent: at(sent), at: at(done)}
		if answered > 0 {
			v.answered = at(answered)
		}
		return v
	}
	own, other := slot{"k", "own"}, slot{"k", "other"}
	for _, c := range []struct {
		what   string
		unsure int
		own    []*taking
		may    bool
	}{
		{"nodes 0 and 4 kept it", 6, nil, false},
		{"the acquire reached node 2 late", 6, []*taking{taken(2, 1, 5, 5)}, true},
		{"the other token came later", 6, []*taking{taken(2, 1, 3, 3)}, false},
		{"the extension refilled node 2", 6, []*taking{taken(2, 6, 6, 7)}, false},
		{
			"one that failed refilled too few", 5,
			[]*taking{taken(2, 5, 5, 5), taken(3, 5, 5, 5)},
			true,
		},
		{
			"and the extension one more", 5,
			[]*taking{taken(2, 5, 5, 5), taken(3, 5, 5, 5), taken(1, 6, 6, 7)},
			false,
		},
		{
			"whose answer came too late", 5,
			[]*taking{taken(2, 5, 5, 5), taken(3, 5, 5, 5), taken(1, 6, 6, 8)},
			true,
		},
		{
			"or did not come", 5,
			[]*taking{taken(2, 5, 5, 5), taken(3, 5, 5, 5), taken(1, 5, 5, 0)},
			true,
		},
	} {
		h := newHistory()
		h.takings.bySlot[own] = append([]*taking{
			taken(0, 1, 1, 1), taken(3, 1, 1, 1), taken(4, 1, 1, 1),
		}, c.own...)
		h.takings.bySlot[other] = []*taking{
			taken(1, 4, 4, 4), taken(2, 4, 4, 4), taken(3, 4, 4, 4),
		}
		require.Equal(t, c.may, h.mayConfirm(span{at(6), at(7)}, at(c.unsure), own, other, at(4)),
			c.what)
	}
}

// The goal: an undocumented error is found, and a documented one has its name.
func TestCheck_UndocumentedErrorIsFound(t *testing.T) {
	r := &run{history: newHistory()}
	require.Equal(t, "ok", r.outcome(nil, acquiring))
	require.Equal(t, "held", r.outcome(fmt.Errorf("waited: %w", lockpipe.ErrHeld), acquiring))
	require.Equal(t, "lost", r.outcome(lockpipe.ErrLost, extending))
	require.Empty(t, r.history.violations)
	r.outcome(errors.New("surprise"), acquiring)
	r.outcome(lockpipe.ErrReleased, acquiring)
	require.Len(t, r.history.violations, 2)
}

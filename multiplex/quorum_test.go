package multiplex

import (
	"slices"
	"testing"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

func TestQuorum_DecidesAcquires(t *testing.T) {
	for _, c := range []struct {
		n, granted, refused, unknown int
		want                         decision
	}{
		{0, 0, 0, 0, noQuorum},
		{1, 0, 0, 0, undecided},
		{1, 1, 0, 0, won},
		{1, 0, 1, 0, held},
		{1, 0, 0, 1, noQuorum},
		{2, 1, 0, 0, undecided},
		{2, 2, 0, 0, won},
		{2, 0, 1, 0, held},
		{2, 1, 1, 0, held},
		{2, 1, 0, 1, noQuorum},
		{2, 0, 0, 1, undecided}, // the other may still refuse
		{3, 2, 0, 0, won},
		{3, 1, 1, 0, undecided},
		{3, 0, 2, 0, held},
		{3, 1, 1, 1, noQuorum},
		{3, 2, 0, 1, won},
		{4, 2, 0, 0, undecided},
		{4, 3, 0, 0, won},
		{4, 2, 2, 0, held},
		{4, 2, 1, 0, undecided},
		{4, 2, 1, 1, noQuorum},
		{5, 3, 0, 0, won},
		{5, 2, 2, 0, undecided},
		{5, 2, 2, 1, noQuorum},
		{5, 0, 3, 0, held},
		{5, 0, 2, 1, undecided},
		{5, 0, 0, 3, noQuorum},
		{5, 2, 3, 0, held},
	} {
		require.Equal(t, c.want, decide(c.n, c.granted, c.refused, c.unknown), "%+v", c)
	}
}

// The goal: a lease is lost only if another quorum was possible: with an even number of nodes, half
// of them is not enough. What an earlier extension found missing counts until it is certain that a
// quorum kept the keys.
func TestQuorum_AnExtensionIsLostOnlyIfAnotherQuorumWasPossible(t *testing.T) {
	const a, b, c, d = 1, 2, 4, 8
	for _, v := range []struct {
		n                                 int
		granted, refused, missed, unknown nodeSet
		want                              decision
	}{
		{n: 2, granted: a, refused: b, want: noQuorum},
		{n: 2, granted: a | b, missed: a, want: won},
		{n: 2, refused: a | b, want: held},
		{n: 3, granted: a, refused: b | c, want: held},
		{n: 3, granted: a, refused: b, want: undecided},
		{n: 3, granted: a | b, missed: a, want: undecided}, // c may have lost them at the same time
		{n: 3, granted: a | b, missed: a, refused: c, want: held},
		{n: 3, granted: a | b, missed: a, unknown: c, want: won},
		{n: 3, granted: b | c, missed: a, want: won},
		{n: 3, missed: a | b, want: held}, // told by answers that came too late for their attempt
		{n: 4, granted: a | b, refused: c | d, want: noQuorum},
		{n: 4, granted: a | b | c | d, missed: a | b, want: won},
		{n: 4, granted: a, refused: b | c | d, want: held},
		{n: 4, granted: a | b, refused: c, want: undecided},
	} {
		require.Equal(t, v.want, decideExtend(v.n, v.granted, v.refused, v.missed, v.unknown),
			"%+v", v)
	}
}

// The goal: an extension is decided exactly when all ways in which the open votes can fall end
// alike.
func TestQuorum_DecidesExtensionsExactlyWhenOpenVotesCannotChangeThem(t *testing.T) {
	var end func(n int, granted, refused, missed, unknown nodeSet) decision
	end = func(n int, granted, refused, missed, unknown nodeSet) decision {
		open := allNodes(n) &^ (granted | refused | unknown)
		if open != 0 {
			i := nodeBit(open.first())
			d := end(n, granted|i, refused, missed, unknown)
			if d == end(n, granted, refused|i, missed, unknown) &&
				d == end(n, granted, refused, missed, unknown|i) {
				return d
			}
			return undecided
		}
		switch {
		case 2*(refused|missed).count() > n:
			return held
		case 2*granted.count() > n:
			return won
		}
		return noQuorum
	}
	for n := 1; n <= 4; n++ {
		all := allNodes(n)
		for sets := range nodeSet(1 << (4 * n)) {
			granted, refused, unknown, missed := sets&all, sets>>n&all, sets>>(2*n)&all,
				sets>>(3*n)&all
			if granted&refused|granted&unknown|refused&unknown != 0 {
				continue
			}
			require.Equal(t, end(n, granted, refused, missed, unknown), decideExtend(n, granted,
				refused, missed, unknown),
				"n %d: granted %b, refused %b, missed %b, unknown %b", n, granted, refused, missed,
				unknown)
		}
	}
}

func TestQuorum_DecidesReleases(t *testing.T) {
	for _, c := range []struct {
		n, absent, confirmed, unknown int
		want                          decision
	}{
		{5, 0, 3, 0, won},
		{5, 0, 2, 2, undecided},
		{5, 0, 2, 3, noQuorum},
		{5, 2, 2, 0, undecided}, // prefers to hear the third holder, too
		{5, 2, 3, 0, won},
		{5, 2, 2, 1, won}, // it can't be heard, and four nodes are free
		{5, 5, 0, 0, won},
		{5, 3, 0, 2, won},
		{5, 2, 0, 3, noQuorum},
		{3, 1, 1, 0, undecided},
		{3, 1, 1, 1, won},
		{1, 0, 0, 1, noQuorum},
		{0, 0, 0, 0, noQuorum},
	} {
		require.Equal(t, c.want, decideRelease(c.n, c.absent, c.confirmed, c.unknown), "%+v", c)
	}
}

// dumb decides by trying every way in which the open votes can still fall: if all end alike, that
// is the decision.
func dumb(votes []node.Vote, open int) decision {
	if open == 0 {
		granted, refused := 0, 0
		for _, v := range votes {
			if v == 1 {
				granted++
			}
			if v == 2 {
				refused++
			}
		}
		switch {
		case 2*granted > len(votes):
			return won
		case refused > len(votes)-quorum(len(votes)):
			return held
		}
		return noQuorum
	}
	var first decision
	for v := range node.Vote(3) {
		d := dumb(append(slices.Clip(votes), v), open-1)
		if first == undecided {
			first = d
		}
		if d != first || d == undecided {
			return undecided
		}
	}
	return first
}

// The goal: the counting agrees with the dumb version for every vote of up to six nodes.
func TestQuorum_DecidesExactlyWhenOpenVotesCannotChangeIt(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for granted := 0; granted <= n; granted++ {
			for refused := 0; granted+refused <= n; refused++ {
				for unknown := 0; granted+refused+unknown <= n; unknown++ {
					var votes []node.Vote
					for range granted {
						votes = append(votes, 1)
					}
					for range refused {
						votes = append(votes, 2)
					}
					for range unknown {
						votes = append(votes, 0)
					}
					want := dumb(votes, n-len(votes))
					require.Equal(t, want, decide(n, granted, refused, unknown),
						"n %d: %d granted, %d refused, %d unknown", n, granted, refused, unknown)
				}
			}
		}
	}
}

func TestQuorum_TheZeroVoteAndDecisionGrantNothing(t *testing.T) {
	require.Equal(t, node.Unknown, node.Vote(0))
	require.Equal(t, undecided, decision(0))
	require.Equal(t, node.Unknown, node.Answer{}.Vote)
	require.Equal(t, nodeSet(0), allNodes(0))
	require.Equal(t, 64, allNodes(64).count())
}

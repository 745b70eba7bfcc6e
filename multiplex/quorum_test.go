package multiplex

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecisionsByVotes(t *testing.T) {
	for _, c := range []struct {
		n, granted, refused, unknown int
		want                         decision
	}{
		{0, 0, 0, 0, noQuorum},
		{1, 0, 0, 0, pending},
		{1, 1, 0, 0, won},
		{1, 0, 1, 0, held},
		{1, 0, 0, 1, noQuorum},
		{2, 1, 0, 0, pending},
		{2, 2, 0, 0, won},
		{2, 0, 1, 0, held},
		{2, 1, 1, 0, held},
		{2, 1, 0, 1, noQuorum},
		{2, 0, 0, 1, pending}, // the other may still refuse
		{3, 2, 0, 0, won},
		{3, 1, 1, 0, pending},
		{3, 0, 2, 0, held},
		{3, 1, 1, 1, noQuorum},
		{3, 2, 0, 1, won},
		{4, 2, 0, 0, pending},
		{4, 3, 0, 0, won},
		{4, 2, 2, 0, held},
		{4, 2, 1, 0, pending},
		{4, 2, 1, 1, noQuorum},
		{5, 3, 0, 0, won},
		{5, 2, 2, 0, pending},
		{5, 2, 2, 1, noQuorum},
		{5, 0, 3, 0, held},
		{5, 0, 2, 1, pending},
		{5, 0, 0, 3, noQuorum},
		{5, 2, 3, 0, held},
	} {
		require.Equal(t, c.want, decide(c.n, c.n-quorum(c.n)+1, c.granted, c.refused, c.unknown), "%+v", c)
	}
}

// The goal: on an even number of nodes, one that was refilled does not cost a lease that nobody else can have.
func TestAnExtensionIsLostOnlyWhereAnotherQuorumWasPossible(t *testing.T) {
	lost := func(n, granted, refused, unknown int) decision {
		return decide(n, quorum(n), granted, refused, unknown)
	}
	require.Equal(t, noQuorum, lost(2, 1, 1, 0))
	require.Equal(t, held, lost(2, 0, 2, 0))
	require.Equal(t, noQuorum, lost(4, 2, 2, 0))
	require.Equal(t, held, lost(4, 1, 3, 0))
	require.Equal(t, held, lost(3, 1, 2, 0))
	require.Equal(t, pending, lost(4, 2, 1, 0))
}

func TestReleasesByVotes(t *testing.T) {
	for _, c := range []struct {
		n, absent, confirmed, unknown int
		want                          decision
	}{
		{5, 0, 3, 0, won},
		{5, 0, 2, 2, pending},
		{5, 0, 2, 3, noQuorum},
		{5, 2, 2, 0, pending}, // prefers to hear the third holder, too
		{5, 2, 3, 0, won},
		{5, 2, 2, 1, won}, // it can't be heard, and four nodes are free
		{5, 5, 0, 0, won},
		{5, 3, 0, 2, won},
		{5, 2, 0, 3, noQuorum},
		{3, 1, 1, 0, pending},
		{3, 1, 1, 1, won},
		{1, 0, 0, 1, noQuorum},
		{0, 0, 0, 0, noQuorum},
	} {
		require.Equal(t, c.want, decideRelease(c.n, c.absent, c.confirmed, c.unknown), "%+v", c)
	}
}

// dumb decides by trying every way in which the open votes can still fall: if all end alike, that is the decision.
func dumb(votes []vote, open, lose int) decision {
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
		case refused >= lose:
			return held
		}
		return noQuorum
	}
	var first decision
	for v := range vote(3) {
		d := dumb(append(slices.Clip(votes), v), open-1, lose)
		if first == pending {
			first = d
		}
		if d != first || d == pending {
			return pending
		}
	}
	return first
}

// The goal: the counting agrees with the dumb version for every vote of up to six nodes.
func TestTheDecisionComesExactlyWhenTheRestCannotChangeIt(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for _, lose := range []int{n - quorum(n) + 1, quorum(n)} {
			for granted := 0; granted <= n; granted++ {
				for refused := 0; granted+refused <= n; refused++ {
					for unknown := 0; granted+refused+unknown <= n; unknown++ {
						var votes []vote
						for range granted {
							votes = append(votes, 1)
						}
						for range refused {
							votes = append(votes, 2)
						}
						for range unknown {
							votes = append(votes, 0)
						}
						want := dumb(votes, n-len(votes), lose)
						require.Equal(t, want, decide(n, lose, granted, refused, unknown), "n %d lose %d: %d granted, %d refused, %d unknown", n, lose, granted, refused, unknown)
					}
				}
			}
		}
	}
}

func TestTheZeroVoteAndDecisionGrantNothing(t *testing.T) {
	require.Equal(t, unknown, vote(0))
	require.Equal(t, pending, decision(0))
	require.Equal(t, unknown, answer{}.vote)
	require.Equal(t, nodeSet(0), firstNodes(0))
	require.Equal(t, 64, firstNodes(64).count())
}

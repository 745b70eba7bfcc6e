package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// oneSet returns the system of the first n nodes.
func oneSet(n int) *System {
	q := NewSystem(First(n))
	return &q
}

// split returns disjoint sets of so many nodes each.
func split(counts ...int) (sets []Nodes) {
	from := 0
	for _, n := range counts {
		sets = append(sets, First(n)<<from)
		from += n
	}
	return sets
}

func TestQuorum_DecidesAcquires(t *testing.T) {
	for _, c := range []struct {
		n, granted, refused, unknown int
		want                         Decision
	}{
		{0, 0, 0, 0, NoQuorum},
		{1, 0, 0, 0, Undecided},
		{1, 1, 0, 0, Won},
		{1, 0, 1, 0, Held},
		{1, 0, 0, 1, NoQuorum},
		{2, 1, 0, 0, Undecided},
		{2, 2, 0, 0, Won},
		{2, 0, 1, 0, Held},
		{2, 1, 1, 0, Held},
		{2, 1, 0, 1, NoQuorum},
		{2, 0, 0, 1, Undecided}, // the other may still refuse
		{3, 2, 0, 0, Won},
		{3, 1, 1, 0, Undecided},
		{3, 0, 2, 0, Held},
		{3, 1, 1, 1, NoQuorum},
		{3, 2, 0, 1, Won},
		{4, 2, 0, 0, Undecided},
		{4, 3, 0, 0, Won},
		{4, 2, 2, 0, Held},
		{4, 2, 1, 0, Undecided},
		{4, 2, 1, 1, NoQuorum},
		{5, 3, 0, 0, Won},
		{5, 2, 2, 0, Undecided},
		{5, 2, 2, 1, NoQuorum},
		{5, 0, 3, 0, Held},
		{5, 0, 2, 1, Undecided},
		{5, 0, 0, 3, NoQuorum},
		{5, 2, 3, 0, Held},
	} {
		votes := split(c.granted, c.refused, c.unknown)
		require.Equal(t, c.want, oneSet(c.n).Acquire(votes[0], votes[1], votes[2]), "%+v", c)
	}
}

// The goal: a lease is lost only if another quorum was possible: with an even number of nodes, half
// of them is not enough. What an earlier extension found missing counts until it is certain that a
// quorum kept the keys.
func TestQuorum_AnExtensionIsLostOnlyIfAnotherQuorumWasPossible(t *testing.T) {
	const a, b, c, d = 1, 2, 4, 8
	for _, v := range []struct {
		n                                 int
		granted, refused, missed, unknown Nodes
		want                              Decision
	}{
		{n: 2, granted: a, refused: b, want: NoQuorum},
		{n: 2, granted: a | b, missed: a, want: Won},
		{n: 2, refused: a | b, want: Held},
		{n: 3, granted: a, refused: b | c, want: Held},
		{n: 3, granted: a, refused: b, want: Undecided},
		{n: 3, granted: a | b, missed: a, want: Undecided}, // c may have lost them at the same time
		{n: 3, granted: a | b, missed: a, refused: c, want: Held},
		{n: 3, granted: a | b, missed: a, unknown: c, want: Won},
		{n: 3, granted: b | c, missed: a, want: Won},
		{n: 3, missed: a | b, want: Held}, // told by answers that came too late for their attempt
		{n: 4, granted: a | b, refused: c | d, want: NoQuorum},
		{n: 4, granted: a | b | c | d, missed: a | b, want: Won},
		{n: 4, granted: a, refused: b | c | d, want: Held},
		{n: 4, granted: a | b, refused: c, want: Undecided},
	} {
		require.Equal(t, v.want, oneSet(v.n).Extension(v.granted, v.refused, v.missed,
			v.unknown), "%+v", v)
	}
}

func TestQuorum_DecidesReleases(t *testing.T) {
	for _, c := range []struct {
		n, absent, confirmed, unknown int
		want                          Decision
	}{
		{5, 0, 3, 0, Won},
		{5, 0, 2, 2, Undecided},
		{5, 0, 2, 3, NoQuorum},
		{5, 2, 2, 0, Undecided}, // prefers to hear the third holder, too
		{5, 2, 3, 0, Won},
		{5, 2, 2, 1, Won}, // it can't be heard, and four nodes are free
		{5, 5, 0, 0, Won},
		{5, 3, 0, 2, Won},
		{5, 2, 0, 3, NoQuorum},
		{3, 1, 1, 0, Undecided},
		{3, 1, 1, 1, Won},
		{1, 0, 0, 1, NoQuorum},
		{0, 0, 0, 0, NoQuorum},
	} {
		votes := split(c.absent, c.confirmed, c.unknown)
		require.Equal(t, c.want, oneSet(c.n).Release(votes[0], votes[1], 0, votes[2]), "%+v", c)
	}
}

// The goal: a release finds the lease lost if the nodes that had it till then were no quorum, as
// soon as that is certain. A node that has not answered may have had it.
func TestQuorum_AReleaseFindsTheLeaseLost(t *testing.T) {
	for _, c := range []struct {
		n, absent, deleted, gone, unknown int
		want                              Decision
	}{
		{3, 0, 2, 1, 0, Won},
		{3, 0, 1, 1, 0, Undecided},
		{3, 0, 1, 1, 1, Won},
		{3, 0, 1, 2, 0, Held},
		{3, 0, 0, 2, 0, Held},
		{3, 0, 0, 1, 0, Undecided},
		{3, 0, 0, 1, 2, NoQuorum},
		{3, 1, 1, 1, 0, Held}, // one node never had it
		{3, 1, 2, 0, 0, Won},
		{5, 0, 2, 1, 0, Undecided},
		{5, 2, 2, 1, 0, Held},
		{5, 0, 3, 2, 0, Won},
		{5, 0, 0, 3, 0, Held},
		{1, 0, 0, 1, 0, Held},
	} {
		votes := split(c.absent, c.deleted, c.gone, c.unknown)
		got := oneSet(c.n).Release(votes[0], votes[1], votes[2], votes[3])
		require.Equal(t, c.want, got, "%+v", c)
	}
}

func TestQuorum_TheZeroValuesGrantNothing(t *testing.T) {
	require.Equal(t, Undecided, Decision(0))
	require.Equal(t, Nodes(0), First(0))
	require.Equal(t, 64, First(64).Count())
	all := First(64)
	require.Equal(t, NoQuorum, new(System).Acquire(all, 0, 0))
	require.Equal(t, NoQuorum, new(System).Extension(all, 0, 0, 0))
	require.Equal(t, NoQuorum, new(System).Release(0, all, 0, 0))
	require.False(t, new(System).IsQuorum(all))
	require.Equal(t, NoQuorum, prospects{}.decision())
}

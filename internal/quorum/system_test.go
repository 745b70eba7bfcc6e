package quorum

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// testSystems are those of one set, and those of clients that move from one set to another: sets
// that overlap in all, some or none of the nodes.
func testSystems() map[string][]Nodes {
	const a, b, c, d, e, f = 1, 2, 4, 8, 16, 32
	return map[string][]Nodes{
		"one":        {a},
		"two":        {a | b},
		"three":      {a | b | c},
		"four":       {a | b | c | d},
		"five":       {a | b | c | d | e},
		"six":        {a | b | c | d | e | f},
		"more nodes": {a | b | c, a | b | c | d | e},
		"all other":  {a | b | c, d | e | f},
		"from one":   {a, a | b | c},
		"to one":     {a | b | c, b},
		"one other":  {a | b | c, a | b | d},
		"even":       {a | b, c | d},
		"half even":  {a | b | c, c | d},
		"three sets": {a | b | c, c | d, e},
	}
}

// oracle decides by trying every way in which the open votes can still fall. If all end alike, that
// is the Decision.
func oracle(open Nodes, votes [3]Nodes, end func(granted, refused, unknown Nodes) Decision,
) Decision {
	if open == 0 {
		return end(votes[0], votes[1], votes[2])
	}
	var first Decision
	for v := range votes {
		next := votes
		next[v] |= Node(open.Lowest())
		d := oracle(open&(open-1), next, end)
		if first == Undecided {
			first = d
		}
		if d != first || d == Undecided {
			return Undecided
		}
	}
	return first
}

// endAcquire decides when all have voted. It counts node by node.
func endAcquire(sets []Nodes) func(granted, refused, unknown Nodes) Decision {
	return func(granted, refused, _ Nodes) Decision {
		end := Won
		for _, set := range sets {
			n, grants, refusals := 0, 0, 0
			for i := range MaxNodes {
				if set.Has(i) {
					n++
					if granted.Has(i) {
						grants++
					} else if refused.Has(i) {
						refusals++
					}
				}
			}
			switch {
			case 2*grants > n:
			case 2*(n-refusals) <= n: // that many refused that the others are no majority
				return Held
			default:
				end = NoQuorum
			}
		}
		return end
	}
}

// endExtend decides when all have voted.
func endExtend(sets []Nodes, lost Nodes) func(granted, refused, unknown Nodes) Decision {
	return func(granted, refused, _ Nodes) Decision {
		end := Won
		for _, set := range sets {
			if n := set.Count(); 2*(set&(refused|lost)).Count() > n {
				return Held
			} else if 2*(set&granted).Count() <= n {
				end = NoQuorum
			}
		}
		return end
	}
}

// eachVotes calls f with all ways in which some of the nodes can have voted, and those that have
// not.
func eachVotes(nodes Nodes, votes [3]Nodes, open Nodes,
	f func(votes [3]Nodes, open Nodes),
) {
	if nodes == 0 {
		f(votes, open)
		return
	}
	bit := Node(nodes.Lowest())
	eachVotes(nodes&^bit, votes, open|bit, f)
	for v := range votes {
		next := votes
		next[v] |= bit
		eachVotes(nodes&^bit, next, open, f)
	}
}

// The goal: the counting agrees with the second, simple version for all votes. So it decides as
// soon as the open votes cannot change the outcome, and not before. Votes of nodes that are in no
// set change nothing.
func TestSystem_DecidesAcquiresExactlyWhenOpenVotesCannotChangeThem(t *testing.T) {
	for name, sets := range testSystems() {
		q, others := NewSystem(sets...), First(64)<<40
		eachVotes(q.nodes, [3]Nodes{}, 0, func(votes [3]Nodes, open Nodes) {
			want := oracle(open, votes, endAcquire(sets))
			if got := q.Acquire(votes[0], votes[1], votes[2]); got != want ||
				q.Acquire(votes[0]|others, votes[1], votes[2]) != want ||
				q.Acquire(votes[0], votes[1]|others, votes[2]) != want {
				require.Equal(t, want, got, "%s: granted %b, refused %b, unknown %b", name,
					votes[0], votes[1], votes[2])
				require.FailNow(t, "votes of other nodes count", name)
			}
		})
	}
}

// The goal: the same for extensions, whatever nodes had lost the keys before.
func TestSystem_DecidesExtensionsExactlyWhenOpenVotesCannotChangeThem(t *testing.T) {
	for name, sets := range testSystems() {
		q := NewSystem(sets...)
		if q.nodes.Count() > 5 && testing.Short() {
			continue
		}
		for lost := range q.nodes + 1 {
			eachVotes(q.nodes, [3]Nodes{}, 0, func(votes [3]Nodes, open Nodes) {
				want := oracle(open, votes, endExtend(sets, lost))
				if got := q.Extension(votes[0], votes[1], lost, votes[2]); got != want {
					require.Equal(t, want, got, "%s: granted %b, refused %b, unknown %b, lost %b",
						name, votes[0], votes[1], votes[2], lost)
				}
			})
		}
	}
}

// The goal: a release is confirmed if it is in each set, and as soon as it is. It is not confirmed
// as soon as some set can't be.
func TestSystem_AReleaseIsConfirmedInEachSet(t *testing.T) {
	for name, sets := range testSystems() {
		q := NewSystem(sets...)
		eachVotes(q.nodes, [3]Nodes{}, 0, func(votes [3]Nodes, _ Nodes) {
			neverHeld, confirmed, unknown := votes[0], votes[1], votes[2]
			want := Won
			for _, set := range sets {
				one := NewSystem(set)
				switch one.Release(neverHeld&set, confirmed&set, 0, unknown&set) {
				case NoQuorum:
					want = NoQuorum
				case Undecided:
					want = min(want, Undecided)
				}
				if want == NoQuorum {
					break
				}
			}
			if got := q.Release(neverHeld, confirmed, 0, unknown); got != want {
				require.Equal(t, want, got, "%s: never Held %b, confirmed %b, unknown %b", name,
					neverHeld, confirmed, unknown)
			}
		})
	}
}

// The goal: a confirmed release finds the lease lost in some set exactly if the nodes that may have
// had it are no quorum there. While open votes can show that, it waits for them.
func TestSystem_AReleaseFindsTheLeaseLostInASet(t *testing.T) {
	for name, sets := range testSystems() {
		q := NewSystem(sets...)
		eachVotes(q.nodes, [3]Nodes{}, 0, func(votes [3]Nodes, open Nodes) {
			neverHeld, confirmed, unknown := votes[0], votes[1], votes[2]
			for gone := confirmed; gone != 0; gone = (gone - 1) & confirmed {
				lacksIn := func(had Nodes) bool {
					return slices.ContainsFunc(sets, func(set Nodes) bool {
						return (set & had).Count() < Need(set.Count())
					})
				}
				want := q.Release(neverHeld, confirmed, 0, unknown)
				if want == Won && lacksIn(q.nodes&^(gone|neverHeld)) {
					want = Held
				} else if want == Won && open != 0 && lacksIn(confirmed&^gone) {
					want = Undecided
				}
				got := q.Release(neverHeld, confirmed&^gone, gone, unknown)
				if got != want {
					require.Equal(t, want, got, "%s: never held %b, confirmed %b, gone %b, "+
						"unknown %b", name, neverHeld, confirmed, gone, unknown)
				}
			}
		})
	}
}

// The goal: of two claims whose systems share a set, at most one is won. Each node grants one of
// them, whatever it answers to the other, and the sets that they do not share are no way around it.
func TestSystem_TwoClaimsThatShareASetExcludeEachOther(t *testing.T) {
	for name, sets := range testSystems() {
		for other, others := range testSystems() {
			if !share(sets, others) {
				continue
			}
			p, q := NewSystem(sets...), NewSystem(others...)
			both := p.nodes | q.nodes
			for granted := range both + 1 {
				if granted&^both == 0 && p.Acquire(granted, both&^granted, 0) == Won {
					require.NotEqual(t, Won, q.Acquire(both&^granted, granted, 0),
						"%s and %s: %b", name, other, granted)
				}
			}
		}
	}
}

func share(sets, others []Nodes) bool {
	for _, set := range sets {
		if slices.Contains(others, set) {
			return true
		}
	}
	return false
}

// The goal: nodes that kept the keys rule another claim out exactly if the other nodes are no
// quorum of any set. A quorum is one of each set.
func TestSystem_KnowsWhoCanBeAQuorum(t *testing.T) {
	for name, sets := range testSystems() {
		q := NewSystem(sets...)
		for nodes := range q.nodes + 1 {
			blocks, quorate, margin := true, true, 64
			for _, set := range sets {
				n := set.Count()
				blocks = blocks && 2*(set&^nodes).Count() <= n
				quorate = quorate && 2*(set&nodes).Count() > n
				margin = min(margin, (set&nodes).Count()-n/2-1)
			}
			require.Equal(t, blocks, q.BlocksOtherQuorum(nodes), "%s %b", name, nodes)
			require.Equal(t, quorate, q.IsQuorum(nodes), "%s %b", name, nodes)
			require.Equal(t, margin, q.Margin(nodes), "%s %b", name, nodes)
		}
	}
}

// The goal: whenever the votes that nodes may have given decide, the callers look at them.
func TestSystem_CallersLookWhenVotesMayDecide(t *testing.T) {
	for name, sets := range testSystems() {
		q := NewSystem(sets...)
		eachVotes(q.nodes, [3]Nodes{}, 0, func(votes [3]Nodes, open Nodes) {
			granted, refused, unknown := votes[0], votes[1], votes[2]
			if q.Acquire(granted, refused, unknown) == Undecided {
				return
			}
			if !q.MayDecide(q.nodes &^ open) {
				require.Fail(t, "nobody looks", "%s: granted %b, refused %b, unknown %b",
					name, granted, refused, unknown)
			}
		})
	}
	q := NewSystem(split(3, 3)...)
	require.False(t, q.MayDecide(0b001001))
	require.True(t, q.MayDecide(0b011000), "one set may be without a quorum")
}

// The goal: sets that are the same count once, in one system and in several.
func TestSystem_HasEachSetOnce(t *testing.T) {
	for _, test := range []struct {
		sets []Nodes
		want System
	}{
		{nil, System{}},
		{[]Nodes{0b110}, System{nodes: 0b110, sets: []Nodes{0b110}}},
		{[]Nodes{0b110, 0b110}, System{nodes: 0b110, sets: []Nodes{0b110}}},
		{[]Nodes{0b111, 0b11100, 0b111}, System{nodes: 0b11111, sets: []Nodes{0b111, 0b11100}}},
	} {
		require.Equal(t, test.want, NewSystem(test.sets...))
	}
	require.Equal(t, []Nodes{4, 2, 1}, Distinct([]Nodes{4, 2}, nil, []Nodes{2, 1}, []Nodes{4}))
}

package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outs is how many nodes are broken at a time, or have forgotten locks that may still count.
func outs(list []Fault, at time.Duration, forgets time.Duration) int {
	out := make(map[int]bool)
	for i, f := range list {
		end := f.end()
		if f.action == kill {
			end = time.Hour
			for _, r := range list[i:] {
				if r.node == f.node && r.action == restart {
					end = r.at
					break
				}
			}
		}
		if f.action.quarantines {
			end += forgets
		}
		if f.at <= at && at < end {
			out[f.node] = true
		}
	}
	return len(out)
}

// Goal: in each group a quorum votes at any time, and faults in one group leave room for some in
// another.
func TestGenerator_LeavesAQuorumOfEachGroup(t *testing.T) {
	const groups, size = 3, 3
	several := false
	for seed := range uint64(30) {
		d := Draw{
			Nodes: groups * size, Groups: groups, Duration: 30 * time.Second,
			TTL: 2 * time.Second, Seed: seed,
		}
		plan, err := Parse("every:300ms", d.Nodes, false, d.Duration)
		require.NoError(t, err)
		list := plan.schedule(d)
		for _, f := range list {
			require.LessOrEqual(t, outs(list, f.at, d.TTL), groups)
			for first := 1; first <= d.Nodes; first += size {
				own := slices.DeleteFunc(slices.Clone(list), func(f Fault) bool {
					return f.node < first || f.node >= first+size
				})
				require.LessOrEqual(t, outs(own, f.at, d.TTL), 1, "%v", own)
			}
			several = several || outs(list, f.at, d.TTL) > 1
		}
	}
	require.True(t, several)
}

// Goal: there is a random fault at each interval, never on a node that has one, and never on a
// majority at the same time, faults asked for by name included. The same seed draws the same. In a
// cluster a node is out for longer.
func TestGenerator_LeavesAQuorum(t *testing.T) {
	drawn := make(map[action]bool)
	for nodes := 1; nodes <= 7; nodes++ {
		for seed := range uint64(60) {
			d := Draw{
				Nodes: nodes, Groups: 1, Duration: 30 * time.Second,
				TTL: 2 * time.Second, Seed: seed,
			}
			forgets, cluster := d.TTL, seed%2 > 0
			if cluster {
				forgets += deposedFor
			}
			text := "every:300ms"
			minority := (nodes - 1) / 2
			if minority > 0 {
				text = "kill:1@3s,every:300ms,restart:1@5s"
			}
			plan, err := Parse(text, nodes, cluster, d.Duration)
			require.NoError(t, err)
			list := plan.schedule(d)
			require.NoError(t, checkOverlaps(list))
			require.Equal(t, list, plan.schedule(d))
			starts := make(map[time.Duration]bool)
			for _, f := range list {
				require.Less(t, f.at, d.Duration)
				require.LessOrEqual(t, outs(list, f.at, forgets), max(minority, 1),
					"%d nodes at %v: %v", nodes, f.at, list)
				require.True(t, minority > 0 || f.action == scriptFlush, "%v", f)
				require.True(t, f.action.happensIn(cluster), "%v", f)
				starts[f.at], drawn[f.action] = true, true
			}
			for k := 1; k < 100; k++ {
				require.True(t, starts[time.Duration(k)*300*time.Millisecond],
					"no fault in interval %d of %d nodes", k, nodes)
			}
			d.Seed += 1000
			require.True(t, nodes == 1 || !slices.Equal(list, plan.schedule(d)),
				"another seed draws the same")
		}
	}
	require.Len(t, drawn, len(actions))
}

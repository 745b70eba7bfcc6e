package page

import (
	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// moveTable is what the callers saw in each phase of a move.
func moveTable(r *bench.Report) table {
	tab := table{Title: "Move", Wide: true, Head: []string{
		"phase", "from s", "until s", "locks/s", "failed calls", "wait p50", "wait p99",
		"release p50", "release p99",
	}}
	if r.Move == nil {
		return tab
	}
	for _, p := range r.Move.Phases {
		tab.Rows = append(tab.Rows, []string{
			p.Phase, figures.Significant(p.FromS), figures.Significant(p.UntilS),
			figures.Thousands(uint64(p.LocksPerS)), figures.Thousands(p.Failed),
			duration(p.WaitMs.P50), duration(p.WaitMs.P99), duration(p.ReleaseMs.P50),
			duration(p.ReleaseMs.P99),
		})
	}
	return tab
}

// moveRows are the other numbers of a move.
func moveRows(r *bench.Report) [][]string {
	if r.Move == nil {
		return nil
	}
	return [][]string{
		{"clients replaced", figures.Thousands(r.Move.Replaced)},
		{"calls and releases of the move", figures.Thousands(r.Move.Calls)},
		{"of these failed", figures.Thousands(r.Move.Failed)},
		{"wait p99 with both layouts, × before", figures.Significant(r.Move.BothOverOld)},
	}
}

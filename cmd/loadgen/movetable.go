package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// printMove prints what the callers saw in each phase of a move.
func printMove(out io.Writer, r *bench.Report) {
	m := r.Move
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "phase\tfrom s\tuntil s\tlocks/s\tfailed\twait p50 ms\tp99\trelease p50 ms\tp99\t\n")
	for _, p := range m.Phases {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t\n", p.Phase, p.FromS,
			p.UntilS, figures.Thousands(uint64(p.LocksPerS)), figures.Thousands(p.Failed),
			p.WaitMs.P50, p.WaitMs.P99, p.ReleaseMs.P50, p.ReleaseMs.P99)
	}
	_ = w.Flush()
	fmt.Fprintf(out, "%s replaced; %s of %s calls and releases failed", figures.Plural(m.Replaced,
		"client"), figures.Thousands(m.Failed), figures.Thousands(m.Calls))
	if r.FaultReport != nil && m.Failed > 0 {
		fmt.Fprint(out, ", with faults")
	}
	fmt.Fprintf(out, "\nwait p99 while both layouts are needed: %.2f times that before\n\n",
		m.BothOverOld)
}

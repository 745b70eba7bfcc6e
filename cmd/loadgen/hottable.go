package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// printHot prints what the scenarios hot and cart are about; the distribution of the waits is among
// the other latencies.
func printHot(out io.Writer, r *bench.Report) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "attempts/lock\thandovers\tsplit votes\tlongest wait ms\tlocks/caller "+
		"CV\tleast/mean\t\n")
	fmt.Fprintf(w, "%.2f\t%s\t%s\t%.3f\t%.3f\t%.3f\t\n\n", r.AttemptsPerLock,
		figures.Thousands(r.Handovers), figures.Thousands(r.SplitVotes),
		r.MaxWaitMs, r.LocksPerCallerCV, r.MinShare)
	_ = w.Flush()
	fmt.Fprintf(w, "hot key: locks/s\tin use\tmost/mean\tleast client/mean\t\n")
	fmt.Fprintf(w, "%.1f\t%.1f%%\t%.3f\t%.3f\t\n\n", r.HotLocksPerS, 100*r.HotBusy, r.MaxShare,
		r.MinClientShare)
	_ = w.Flush()
	if c := r.Cold; c != nil {
		fmt.Fprintf(w, "cold: locks/s\tlongest wait ms\tleast/mean\tmost/mean\t\n")
		fmt.Fprintf(w, "%.1f\t%.3f\t%.3f\t%.3f\t\n\n", c.LocksPerS, c.MaxWaitMs, c.MinShare,
			c.MaxShare)
		_ = w.Flush()
	}
}

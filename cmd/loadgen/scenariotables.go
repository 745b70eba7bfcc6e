package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// numbers returns a table whose cells end at one column, as numbers do.
func numbers(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// printHold prints what the scenario hold is about.
func printHold(out io.Writer, r *bench.Report) {
	included, memory, cores := "", r.ClientRSSBytesPerLease, r.ClientCPUCores
	if r.InProcess() {
		included, memory, cores = " with nodes", r.RSSBytesPerLeaseWithNodes, r.CPUCoresWithNodes
	}
	w := numbers(out)
	fmt.Fprintf(w, "leases\tlost\tsamples\tdead\tno answer\textensions/s\tbytes/lease%s\tCPU "+
		"cores%s\t\n", included, included)
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t\n", figures.Thousands(r.Leases),
		figures.Thousands(r.Lost),
		figures.Thousands(r.Samples), figures.Thousands(r.Missing), figures.Thousands(r.Unanswered),
		figures.Thousands(uint64(r.ExtensionsPerS)),
		figures.Thousands(uint64(figures.Known(memory))), figures.Known(cores))
	_ = w.Flush()
	fmt.Fprintf(out, "\nall taken in %.2f s, held for %.2f s, released in %.2f s\n", r.TakeS,
		r.KeepS, r.GiveS)
	if r.FirstMissing != "" {
		fmt.Fprintf(out, "first dead lease: %s\n", r.FirstMissing)
	}
	fmt.Fprintln(out)
}

// printHot prints what the scenarios hot and cart are about; the distribution of the waits is among
// the other latencies.
func printHot(out io.Writer, r *bench.Report) {
	w := numbers(out)
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

// printCombine prints what the scenario combine is about.
func printCombine(out io.Writer, r *bench.Report) {
	w := numbers(out)
	fmt.Fprintf(w, "items/s\tbatches\titems/batch\t\n")
	fmt.Fprintf(w, "%s\t%s\t%.1f\t\n\n", figures.Thousands(uint64(r.ItemsPerS)),
		figures.Thousands(r.Batches), r.ItemsPerBatch)
	_ = w.Flush()
}

// printMove prints what the callers saw in each phase of a move.
func printMove(out io.Writer, r *bench.Report) {
	m := r.Move
	w := numbers(out)
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

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
	"github.com/lockpipe/lockpipe/bench/series"
)

// printTable prints the report for people. Every number in it is also in the JSON.
func printTable(out io.Writer, r *bench.Report) {
	fmt.Fprintf(out, "loadgen %s, scenario %s, seed %d\n", r.Version, r.Scenario, r.Config.Seed)
	fmt.Fprintf(out, "%s on %s, %s, %s\n", figures.Callers(r.Config.Callers, r.Config.Cold),
		figures.Plural(r.Config.Clients, "client"), figures.Loop(r.Config.Rate), keySpace(r))
	fmt.Fprintf(out, "%s: %s (%s)\n", figures.Nodes(r.Nodes, r.Config.Groups), r.Config.Nodes,
		r.Backend)
	printNote(out, r.NodesNote)
	fmt.Fprintln(out)

	if r.FaultReport != nil {
		printFaults(out, r)
	}
	if r.HoldReport != nil {
		printHold(out, r)
	}
	if r.HotReport != nil {
		printHot(out, r)
	}
	if r.Report != nil {
		printCombine(out, r)
	}
	if r.Move != nil {
		printMove(out, r)
	}
	w := numbers(out)
	fmt.Fprintf(w, "locks/s\tacquired\treleased\trefused\tno quorum\texpired\tlost\terrors\t\n")
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n\n", figures.Thousands(uint64(r.LocksPerS)),
		figures.Thousands(r.Acquired), figures.Thousands(r.Released),
		figures.Thousands(r.Refused), figures.Thousands(r.NoQuorum),
		figures.Thousands(r.Expired), figures.Thousands(r.Lost), figures.Thousands(r.Errors))
	_ = w.Flush()
	fmt.Fprintf(w, "ms\tp50\tp90\tp99\tp99.9\tmax\tmean\t\n")
	printLatency(w, "acquire", r.AcquireMs)
	if r.HotReport != nil {
		printLatency(w, "wait", r.WaitMs)
		if r.Cold != nil {
			printLatency(w, "cold wait", r.Cold.WaitMs)
		}
	}
	printLatency(w, "release", r.ReleaseMs)
	_ = w.Flush()

	printCost(out, r)
	if r.Unserved > 0 {
		fmt.Fprintf(out, "%s calls that were due had found no caller free at the end\n",
			figures.Thousands(r.Unserved))
	}
	if r.FirstError != "" {
		fmt.Fprintf(out, "first error: %s\n", r.FirstError)
	}
	printKinds(out, r)
	fmt.Fprintf(out, "goroutines: %d before, at most %d, %d after\n", r.GoroutinesBefore,
		r.GoroutinesMost, r.GoroutinesAfter)
	fmt.Fprintf(out, "violations: %s   leftover keys: %s", figures.Thousands(r.Violations),
		figures.Thousands(r.LeftoverKeys))
	if r.Config.Fencing {
		fmt.Fprintf(out, "   fence regressions: %s", figures.Thousands(r.FenceRegressions))
	}
	fmt.Fprintln(out)
}

// printCost prints what a lock took of the machine. Nobody knows the part of nodes in this process.
func printCost(out io.Writer, r *bench.Report) {
	cost := fmt.Sprintf("%.1f us of client CPU and %.1f allocations per lock",
		figures.Known(r.ClientCPUUsPerLock), figures.Known(r.AllocsPerLock))
	if r.InProcess() {
		cost = fmt.Sprintf("%.1f us of CPU and %.1f allocations per lock, nodes included",
			figures.Known(r.CPUUsPerLockWithNodes), figures.Known(r.AllocsPerLockWithNodes))
	}
	fmt.Fprintf(out, "\n%s, %.1f operations per flush, %.2f s\n", cost, r.OpsPerFlush, r.DurationS)
	if r.ServerCPUUsPerLock > 0 {
		fmt.Fprintf(out, "%.1f us of CPU per lock on the busiest server, %.0f%% of one CPU\n",
			r.ServerCPUUsPerLock, 100*r.ServerCPUShare)
	}
}

// printNote prints what is to be said of the nodes, if anything is: each sentence on its own line.
func printNote(out io.Writer, note string) {
	if note != "" {
		fmt.Fprintln(out, strings.ReplaceAll(note, ". ", ".\n"))
	}
}

func printLatency(w io.Writer, name string, l series.Latency) {
	fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t\n", name, l.P50, l.P90, l.P99, l.P999,
		l.Max, l.Mean)
}

// keySpace says what a call asks for.
func keySpace(r *bench.Report) string {
	text := fmt.Sprintf("%d of %s a call", r.Config.Batch, figures.Plural(r.Config.Keys, "key"))
	if r.Config.Hot > 0 {
		text = fmt.Sprintf("1 of %s and %d of %s a call", figures.Plural(r.Config.Hot, "hot key"),
			r.Config.Others, figures.Plural(r.Config.Keys, "key"))
	}
	text += fmt.Sprintf(", held for %gms, TTL %gms", r.Config.HoldMs, r.Config.TTLMs)
	if r.Config.AutoExtendMs > 0 {
		text += fmt.Sprintf(", extended for up to %gms", r.Config.AutoExtendMs)
	}
	if r.Config.Fencing {
		text += ", with fencing"
	}
	return text
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// maxShown is how many faults the table shows; the JSON has all.
const maxShown = 40

// printFaults prints what happened to the nodes, and when.
func printFaults(out io.Writer, r *bench.Report) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "fault\tfrom s\tuntil s\t\n")
	for _, f := range r.Faults[:min(maxShown, len(r.Faults))] {
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%s\n", f.Fault, f.FromS, f.UntilS, f.Error)
	}
	_ = w.Flush()
	if more := len(r.Faults) - maxShown; more > 0 {
		fmt.Fprintf(out, "and %d more; -json has all\n", more)
	}
	fmt.Fprintf(out, "fault seed %d, %d keys when the clients were closed\n\n", r.Config.FaultSeed,
		r.KeysAtClose)
}

// printKinds prints what was wrong in calls that failed, if any did.
func printKinds(out io.Writer, r *bench.Report) {
	if len(r.ErrorsByKind) == 0 {
		return
	}
	fmt.Fprint(out, "failed calls by kind (a call may have several):")
	for _, kind := range slices.Sorted(maps.Keys(r.ErrorsByKind)) {
		fmt.Fprintf(out, "  %s: %s", kind, figures.Thousands(r.ErrorsByKind[kind]))
	}
	fmt.Fprintln(out)
}

package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// printHold prints what the scenario hold is about.
func printHold(out io.Writer, r *bench.Report) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "leases\tlost\tsamples\tdead\tno answer\textensions/s\tbytes/lease\tCPU "+
		"cores\t\n")
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t\n", figures.Thousands(r.Leases),
		figures.Thousands(r.Lost),
		figures.Thousands(r.Samples), figures.Thousands(r.Missing), figures.Thousands(r.Unanswered),
		figures.Thousands(uint64(r.ExtensionsPerS)),
		figures.Thousands(uint64(r.ClientRSSBytesPerLease)), r.ClientCPUCores)
	_ = w.Flush()
	fmt.Fprintf(out, "\nall taken in %.2f s, held for %.2f s, released in %.2f s\n", r.TakeS,
		r.KeepS, r.GiveS)
	if r.FirstMissing != "" {
		fmt.Fprintf(out, "first dead lease: %s\n", r.FirstMissing)
	}
	fmt.Fprintln(out)
}

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// print writes the curve for people.
func (c curve) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %s\n", c.Scenario, c.About)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%s\t%ss/s\tlowest\thighest\tp50 us\tp99 us\tCPU us/%s\tallocs\tclient "+
		"cores\tserver cores\terrors\tleft\t\n", c.Axis, c.Unit, c.Unit)
	for _, p := range c.Points {
		fmt.Fprintf(tw, "%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%d\t\n",
			p.Size, p.PerSecond, p.Lowest, p.Highest, p.P50, p.P99,
			p.CPUPerLock, p.MallocsPerLock, p.ClientCores, p.ServerCores, p.Errors, p.Left)
	}
	_ = tw.Flush() // an error of w is noticed by who writes to it next
	for _, p := range c.Points {
		if p.Errors > 0 {
			fmt.Fprintf(w, "  %s failed %d calls, for one: %s\n", p.Contender, p.Errors, p.AnError)
		}
	}
}

// print writes the curve for people.
func (c heldCurve) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %s\n", c.Scenario, c.About)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "leases\tTTL s\textensions/s\tCPU us/extension\tCPU us/lease and "+
		"second\tclient cores\tserver cores\tlost\trounds\t\n")
	for _, p := range c.Points {
		fmt.Fprintf(tw, "%d\t%g\t%.0f\t%.2f\t%.3f\t%.3f\t%.3f\t%d\t%d\t\n", p.Leases, p.TTLSeconds,
			p.Extensions, p.PerExtension, p.PerLease,
			p.ClientCores, p.ServerCores, p.Lost, len(p.Rounds))
	}
	_ = tw.Flush()
}

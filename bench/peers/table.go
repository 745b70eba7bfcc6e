package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table is one scenario's part of a report.
type table struct {
	Scenario string    `json:"scenario"`
	About    string    `json:"about"`
	Callers  int       `json:"callers"` // of each process, if there are several
	Keys     int       `json:"keys_per_call"`
	Baseline string    `json:"baseline"`
	Lines    []summary `json:"contenders"`
	// What follows is of the hot scenarios. RetryMs is 0 if the documentation of each library
	// was followed.
	HoldMs  float64  `json:"hold_ms,omitempty"`
	RetryMs float64  `json:"retry_ms,omitempty"`
	Against []versus `json:"lockpipe_against,omitempty"`
	// Processes is how many the callers are in, 0 if in that which wrote this.
	Processes int `json:"processes,omitempty"`
	hot       bool
	// HeldP99 is, in the scenario held, the 99th percentile with held leases over that without:
	// the median over the rounds.
	HeldP99 float64 `json:"held_p99_ratio,omitempty"`
	paced   bool
}

// print writes the table for people.
func (t table) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s: %s (ratio against %s)\n", t.Scenario, t.About, t.Baseline)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	latency := "p50 us\tp99 us\tmax us"
	switch {
	case t.hot:
		latency = "least/mean\tJain\twait p50 us\twait p99 us\tworst p99 us\twait max us"
	case t.paced:
		latency = "acquire p50 us\tp99 us\tmax us\trelease p50 us"
	}
	fmt.Fprintf(tw, "contender\tlocks/s\tlowest\thighest\tratio\t%s\tCPU "+
		"us/lock\tallocs\tclient cores\tserver cores\terrors\tleft\t\n", latency)
	for i, s := range t.Lines {
		left, p50, p99 := "?", "-", "-"
		if s.Left >= 0 {
			left = fmt.Sprint(s.Left)
		}
		if s.P50 > 0 {
			// Zero if the calls are longer than the window.
			p50, p99 = fmt.Sprintf("%.0f", s.P50), fmt.Sprintf("%.0f", s.P99)
		}
		if t.hot {
			p50 = fmt.Sprintf("%.2f\t%.3f\t%s", s.MinShare, s.Jain, p50)
			p99 += fmt.Sprintf("\t%.0f", s.WorstP99)
		}
		most := fmt.Sprintf("%.0f", s.Max)
		if t.paced {
			most += fmt.Sprintf("\t%.0f", s.ReleaseP50)
		}
		fmt.Fprintf(tw,
			"%s%s\t%.0f\t%.0f\t%.0f\t%.2f\t%s\t%s\t%s\t%.1f\t%.1f\t%.2f\t%.2f\t%d\t%s\t\n",
			s.Contender, mark(i),
			s.PerSecond, s.Lowest, s.Highest, s.Ratio, p50, p99, most, s.CPUPerLock,
			s.MallocsPerLock, s.ClientCores, s.ServerCores, s.Errors, left)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, s := range t.Lines {
		fmt.Fprintf(w, "  %s %s\n", mark(i), s.Where)
		if s.Errors > 0 {
			fmt.Fprintf(w, "      %s failed %d calls, for one: %s\n", s.Contender, s.Errors,
				s.AnError)
		}
		if s.Left > 0 {
			fmt.Fprintf(w, "      %s left %d keys behind, each until its TTL ends\n", s.Contender,
				s.Left)
		}
	}
	if t.HeldP99 > 0 {
		fmt.Fprintf(w, "  p99 beside held leases: %.2f times that without\n", t.HeldP99)
	}
	for _, v := range t.Against {
		fmt.Fprintf(w, "  %s against %s: %.2f times the locks/s; of its wait %.3f at p50, %.3f "+
			"at p99, %.3f at most\n",
			lockpipeName, v.Contender, v.PerSecond, v.P50, v.P99, v.Max)
	}
	return nil
}

// mark is the sign of a line's footnote.
func mark(line int) string { return fmt.Sprintf(" [%d]", line+1) }

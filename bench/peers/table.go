package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"
)

// report is everything that one run found out; it is what -json writes.
type report struct {
	When     time.Time     `json:"when"`
	Go       string        `json:"go"`
	Platform string        `json:"platform"`
	CPUs     int           `json:"cpus"`
	Nodes    int           `json:"nodes"`
	Backend  string        `json:"backend"`
	TTL      time.Duration `json:"ttl_ns"`
	Rounds   int           `json:"rounds"`
	Window   time.Duration `json:"window_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	Tables   []table       `json:"scenarios"`
}

// table is one scenario's part of it.
type table struct {
	Scenario string    `json:"scenario"`
	About    string    `json:"about"`
	Callers  int       `json:"callers"`
	Keys     int       `json:"keys_per_call"`
	Baseline string    `json:"baseline"`
	Lines    []summary `json:"contenders"`
	// What follows is of the hot scenarios. RetryMs is 0 where the documentation of each library was followed.
	HoldMs  float64  `json:"hold_ms,omitempty"`
	RetryMs float64  `json:"retry_ms,omitempty"`
	Against []versus `json:"lockpipe_against,omitempty"`
	hot     bool
}

func newReport(n *nodes, set settings) *report {
	return &report{
		When: time.Now().UTC(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.GOMAXPROCS(0), Nodes: len(n.urls), Backend: n.backend,
		TTL: ttl, Rounds: set.rounds, Window: set.window, Warmup: set.warmup,
	}
}

// heading says once what holds for all tables.
func (r *report) heading(w io.Writer) {
	fmt.Fprintf(w, "%d nodes (%s), %s %s, %d CPUs for the client and any local nodes; "+
		"acquire + release, TTL %s, distinct keys but in the hot scenarios\n", r.Nodes, r.Backend, r.Go, r.Platform, r.CPUs, r.TTL)
	fmt.Fprintf(w, "medians of %d interleaved rounds of %s after %s of warm-up each; max and errors over all rounds\n",
		r.Rounds, r.Window, r.Warmup)
	if r.Backend == "in-process" {
		fmt.Fprintln(w, "NOT A MEASUREMENT: without a redis-server the nodes live in this process, "+
			"are slow, and their CPU time counts as the client's")
	}
}

// print writes the table for people.
func (t table) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s: %s (ratio against %s)\n", t.Scenario, t.About, t.Baseline)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	latency := "p50 us\tp99 us\tmax us"
	if t.hot {
		latency = "least/mean\twait p50 us\twait p99 us\twait max us"
	}
	fmt.Fprintf(tw, "contender\tlocks/s\tlowest\thighest\tratio\t%s\tCPU us/lock\terrors\tleft\t\n", latency)
	for i, s := range t.Lines {
		left, p50, p99 := "?", "-", "-"
		if s.Left >= 0 {
			left = fmt.Sprint(s.Left)
		}
		if s.P50 > 0 {
			// Zero where the calls are longer than the window.
			p50, p99 = fmt.Sprintf("%.0f", s.P50), fmt.Sprintf("%.0f", s.P99)
		}
		if t.hot {
			p50 = fmt.Sprintf("%.2f\t%s", s.MinShare, p50)
		}
		fmt.Fprintf(tw, "%s%s\t%.0f\t%.0f\t%.0f\t%.2f\t%s\t%s\t%.0f\t%.1f\t%d\t%s\t\n", s.Contender, mark(i),
			s.PerSecond, s.Lowest, s.Highest, s.Ratio, p50, p99, s.Max, s.CPUPerLock, s.Errors, left)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, s := range t.Lines {
		fmt.Fprintf(w, "  %s %s\n", mark(i), s.Where)
		if s.Errors > 0 {
			fmt.Fprintf(w, "      %s failed %d calls, for one: %s\n", s.Contender, s.Errors, s.AnError)
		}
		if s.Left > 0 {
			fmt.Fprintf(w, "      %s left %d keys behind, each until its TTL ends\n", s.Contender, s.Left)
		}
	}
	for _, v := range t.Against {
		fmt.Fprintf(w, "  %s against %s: %.2f times the locks/s; of its wait %.3f at p50, %.3f at p99, %.3f at most\n",
			lockpipeName, v.Contender, v.PerSecond, v.P50, v.P99, v.Max)
	}
	return nil
}

// mark is the sign of a line's footnote.
func mark(line int) string { return fmt.Sprintf(" [%d]", line+1) }

// write stores the report as JSON.
func (r *report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

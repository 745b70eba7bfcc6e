package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// report is everything that was found out; it is what -json writes and -render reads.
type report struct {
	Runs   []circumstances `json:"runs"`
	Tables []table         `json:"scenarios"`
	Growth []curve         `json:"growth"`
	Held   *heldCurve      `json:"growth_held,omitempty"`
}

// circumstances are what one run of this command was made under.
type circumstances struct {
	Scenarios []string  `json:"scenarios"`
	When      time.Time `json:"when"`
	// Revision is that of lockpipe, Modules are the versions of all others.
	Revision string            `json:"revision,omitempty"`
	Modules  map[string]string `json:"modules"`
	Go       string            `json:"go"`
	Server   string            `json:"redis_server"`
	Platform string            `json:"platform"`
	CPUModel string            `json:"cpu_model"`
	CPUs     int               `json:"cpus"`
	Nodes    int               `json:"nodes"`
	Backend  string            `json:"backend"`
	TTL      time.Duration     `json:"ttl_ns"`
	Rounds   int               `json:"rounds"`
	Window   time.Duration     `json:"window_ns"`
	Warmup   time.Duration     `json:"warmup_ns"`
}

func newReport(n *nodes, set settings) *report {
	c := circumstances{
		When: time.Now().UTC(), Go: runtime.Version(), Platform: runtime.GOOS + "/" +
			runtime.GOARCH, Server: n.version,
		CPUModel: cpuModel(), CPUs: runtime.GOMAXPROCS(0), Nodes: len(n.urls), Backend: n.backend,
		TTL: ttl, Rounds: set.rounds, Window: set.window, Warmup: set.warmup,
	}
	c.Modules, c.Revision = versions()
	return &report{Runs: []circumstances{c}}
}

// heading says once what holds for all tables of a run.
func (c circumstances) heading(w io.Writer) {
	fmt.Fprintf(w, "%d nodes (%s %s), %s %s, %d CPUs (%s) for the client and any local nodes; "+
		"acquire + release, TTL %s, distinct keys but in the hot scenarios\n",
		c.Nodes, c.Backend, c.Server, c.Go, c.Platform, c.CPUs, c.CPUModel, c.TTL)
	fmt.Fprintf(w, "medians of %d interleaved rounds of %s after %s of warm-up each; max and "+
		"errors over all rounds\n",
		c.Rounds, c.Window, c.Warmup)
	if c.Backend == "in-process" {
		fmt.Fprintln(w,
			"NOT A MEASUREMENT: without a redis-server the nodes live in this process, "+
				"are slow, and their CPU time counts as the client's")
	}
}

// write stores the report as JSON.
func (r *report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// readReports reads several files as one report. Where a scenario is in more than one of them the
// last one counts.
func readReports(files []string) (*report, error) {
	all := new(report)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var part report
		if err := json.Unmarshal(text, &part); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all.merge(part)
	}
	all.sort()
	return all, nil
}

// merge adds what part has, in place of what was there of the same scenarios.
func (r *report) merge(part report) {
	for _, c := range part.Runs {
		for i := range r.Runs {
			r.Runs[i].Scenarios = slices.DeleteFunc(r.Runs[i].Scenarios,
				func(s string) bool { return slices.Contains(c.Scenarios, s) })
		}
	}
	r.Runs = slices.DeleteFunc(append(r.Runs, part.Runs...),
		func(c circumstances) bool { return len(c.Scenarios) == 0 })
	for _, t := range part.Tables {
		r.Tables = replace(r.Tables, t, func(t table) string { return t.Scenario })
	}
	for _, c := range part.Growth {
		r.Growth = replace(r.Growth, c, func(c curve) string { return c.Scenario })
	}
	if part.Held != nil {
		r.Held = part.Held
	}
}

// sort puts everything in the order of the scenarios, in whichever order the files came.
func (r *report) sort() {
	place := func(name string) int { return slices.Index(scenarioNames(), name) }
	slices.SortStableFunc(r.Tables,
		func(a, b table) int { return place(a.Scenario) - place(b.Scenario) })
	slices.SortStableFunc(r.Growth,
		func(a, b curve) int { return place(a.Scenario) - place(b.Scenario) })
	for _, c := range r.Runs {
		slices.SortFunc(c.Scenarios, func(a, b string) int { return place(a) - place(b) })
	}
	slices.SortStableFunc(r.Runs, func(a,
		b circumstances,
	) int {
		return place(a.Scenarios[0]) - place(b.Scenarios[0])
	})
}

// replace puts one in the place of that with the same name, or at the end.
func replace[T any](all []T, one T, name func(T) string) []T {
	if i := slices.IndexFunc(all, func(t T) bool { return name(t) == name(one) }); i >= 0 {
		all[i] = one
		return all
	}
	return append(all, one)
}

// table returns that of a scenario, and false if there is none.
func (r *report) table(scenario string) (table, bool) {
	i := slices.IndexFunc(r.Tables, func(t table) bool { return t.Scenario == scenario })
	if i < 0 {
		return table{}, false
	}
	return r.Tables[i], true
}

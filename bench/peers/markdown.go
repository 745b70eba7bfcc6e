package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// markdown is the tables for docs/benchmarks.md, with the names of the scenarios as headings.
func (r *report) markdown() string {
	var b strings.Builder
	for _, c := range r.Runs {
		c.markdown(&b)
	}
	for _, t := range r.Tables {
		t.markdown(&b)
	}
	for _, c := range r.Growth {
		c.markdown(&b)
	}
	if r.Held != nil {
		r.Held.markdown(&b)
	}
	return b.String()
}

// row writes one line of a table, or two with the line below the headings.
func row(b *strings.Builder, heading bool, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	if heading {
		b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
	}
}

// libraries are the modules that a reader wants to know the versions of.
var libraries = []string{
	"github.com/redis/rueidis", "github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9",
	"github.com/bsm/redislock",
}

func (c circumstances) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s, %s %s, %d nodes (%s %s), %d CPUs (%s), medians of %d rounds of %v",
		strings.Join(c.Scenarios, ", "),
		c.When.Format(time.DateOnly), c.Go, c.Platform, c.Nodes, c.Backend, c.Server, c.CPUs,
		c.CPUModel, c.Rounds, c.Window)
	if c.Revision != "" {
		fmt.Fprintf(b, ", lockpipe %.12s", c.Revision)
	}
	for _, path := range slices.Sorted(maps.Keys(c.Modules)) {
		if slices.Contains(libraries, path) {
			fmt.Fprintf(b, ", %s %s", strings.TrimPrefix(path, "github.com/"), c.Modules[path])
		}
	}
	b.WriteString("\n\n")
}

func (t table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "### %s: %s\n\n", t.Scenario, t.About)
	apart := slices.ContainsFunc(t.Lines, func(s summary) bool { return s.ReleaseP50 > 0 })
	hot := slices.ContainsFunc(t.Lines, func(s summary) bool { return s.MinShare > 0 })
	heads := []string{"", "locks/s", "ratio", "p50", "p99"}
	switch {
	case apart:
		heads = []string{"", "locks/s", "ratio", "acquire p50", "acquire p99", "release p50"}
	case hot:
		heads = []string{
			"", "locks/s", "ratio", "wait p50", "wait p99", "worst p99", "longest",
			"least / mean", "Jain",
		}
	}
	row(b, true, append(heads, "client CPU per lock", "allocations per lock", "client cores",
		"server cores", "errors", "keys left")...)
	for _, s := range t.Lines {
		cells := []string{
			title(s.Contender), figures.SignificantThousands(s.PerSecond), times(s.Ratio),
			clock(s.P50), clock(s.P99),
		}
		switch {
		case apart:
			cells = append(cells, clock(s.ReleaseP50))
		case hot:
			cells = append(cells, clock(s.WorstP99), clock(s.Max), times(s.MinShare),
				figures.SignificantThousands(s.Jain))
		}
		row(b, false, append(cells, s.costs()...)...)
	}
	if t.HeldP99 > 0 {
		fmt.Fprintf(b, "\np99 of the acquire beside held leases: %s times that without.\n",
			times(t.HeldP99))
	}
	b.WriteString("\n")
}

// costs are the cells that all tables of locks end with.
func (s summary) costs() []string {
	servers := "-"
	if s.ServerCores > 0 {
		servers = figures.SignificantThousands(s.ServerCores)
	}
	return []string{
		clock(s.CPUPerLock), figures.SignificantThousands(s.MallocsPerLock),
		figures.SignificantThousands(s.ClientCores), servers,
		figures.Thousands(s.Errors), figures.Thousands(s.Left),
	}
}

func (c curve) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "### %s: %s\n\n", c.Scenario, c.About)
	row(b, true, c.label(), c.Unit+"s/s", "p50", "p99", "client CPU per "+c.Unit,
		"allocations per "+c.Unit, "client cores", "server cores", "errors",
		"keys left")
	for _, p := range c.Points {
		row(b, false, append([]string{
			figures.Thousands(p.Size), figures.SignificantThousands(p.PerSecond), clock(p.P50),
			clock(p.P99),
		}, p.costs()...)...)
	}
	b.WriteString("\n")
}

func (c heldCurve) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "### %s: %s\n\n", c.Scenario, c.About)
	row(b, true, "leases", "TTL", "extensions/s", "client CPU per extension",
		"client CPU per lease and second", "client cores", "server cores", "lost")
	for _, p := range c.Points {
		servers := "-"
		if p.ServerCores > 0 {
			servers = figures.SignificantThousands(p.ServerCores)
		}
		row(b, false, figures.Thousands(p.Leases), fmt.Sprintf("%g s", p.TTLSeconds),
			figures.SignificantThousands(p.Extensions), clock(p.PerExtension), clock(p.PerLease),
			figures.SignificantThousands(p.ClientCores), servers, figures.Thousands(p.Lost))
	}
	b.WriteString("\n")
}

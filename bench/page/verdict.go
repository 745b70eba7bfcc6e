package page

import (
	"fmt"
	"strings"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
	"github.com/lockpipe/lockpipe/bench/series"
)

// verdict is what the run showed about safety.
type verdict struct {
	Safe  bool
	Word  string
	Lines []finding
	Notes []string
}

// finding is one thing that was looked for.
type finding struct {
	Good bool
	Text string
}

// none returns the finding that there is none of something, in words, or how many there are.
func none(n uint64, words, found string) finding {
	if n == 0 {
		return finding{true, words}
	}
	return finding{false, figures.Thousands(n) + " " + found}
}

// judge says whether the run was safe. With an error of the run that is not known, unless it was
// shown to be unsafe.
func judge(r *bench.Report, runErr error) verdict {
	v := verdict{Safe: r.Safe() && runErr == nil, Word: "Safe"}
	switch {
	case !r.Safe():
		v.Word = "Not safe"
	case runErr != nil:
		v.Word = "Not known to be safe"
	}
	v.Lines = append(v.Lines, none(r.Violations, "No key had two holders at the same time.",
		"violations: two holders of one key at once"))
	if r.Config.Fencing || r.FenceRegressions > 0 {
		v.Lines = append(v.Lines, none(r.FenceRegressions, "Each fence was above those before it.",
			"fence regressions: a fence that was not above those before it"))
	}
	v.Lines = append(v.Lines, none(uint64(max(r.LeftoverKeys, 0)), "No key was left behind on the nodes.",
		"keys left behind on the nodes"))
	if r.HoldReport != nil {
		samples := "of " + figures.Thousands(r.Samples) + " samples"
		v.Lines = append(v.Lines, none(r.Lost, "No lease was lost before its release.",
			"leases lost before their release"), none(r.Missing, "All "+figures.Thousands(r.Samples)+
			" samples found the keys of held leases.", samples+" found a held lease without its keys"))
	}
	if r.FaultReport != nil && r.KeysAtClose > 0 {
		v.Notes = append(v.Notes, figures.Thousands(r.KeysAtClose)+" keys just after the clients "+
			"were closed. Keys whose release went unanswered expire by "+
			"themselves. Only keys that outlive their TTL count as left behind.")
	}
	if runErr != nil {
		v.Notes = append(v.Notes, "The run ended with an error: "+runErr.Error())
	}
	if r.FirstError != "" {
		v.Notes = append(v.Notes, "First error of a call: "+r.FirstError)
	}
	if r.HoldReport != nil && r.FirstMissing != "" {
		v.Notes = append(v.Notes, "First held lease without its keys: "+r.FirstMissing)
	}
	if r.Unserved > 0 {
		v.Notes = append(v.Notes, figures.Thousands(r.Unserved)+" calls that were due found no caller free "+
			"before the end.")
	}
	return v
}

// summary is the run in a sentence.
func summary(r *bench.Report) string {
	return fmt.Sprintf("%s on %s, %s, %s (%s), %s",
		figures.Callers(r.Config.Callers, r.Config.Cold),
		figures.Plural(r.Config.Clients, "client"), figures.Loop(r.Config.Rate),
		figures.Nodes(r.Nodes, r.Config.Groups), r.Backend, duration(r.DurationS*1000))
}

// tiles are the numbers that a reader looks for first. The first two are large.
func tiles(r *bench.Report) []tile {
	list := []tile{
		{"throughput", figures.Thousands(uint64(r.LocksPerS)), "locks/s"},
		{"acquire p99", duration(r.AcquireMs.P99), ""},
		{"acquire p50", duration(r.AcquireMs.P50), ""},
		{"acquired", figures.Thousands(r.Acquired), "keys"},
	}
	if h := r.HotReport; h != nil {
		list = append(list, tile{"longest wait", duration(h.MaxWaitMs), ""}, tile{
			"attempts",
			figures.Significant(h.AttemptsPerLock), "per lock",
		},
			tile{"least served", figures.Significant(h.MinShare), "× mean"},
			tile{"hot key in use", figures.Significant(100 * h.HotBusy), "%"})
	}
	if h := r.HoldReport; h != nil {
		list = append(list, tile{"leases held", figures.Thousands(h.Leases), ""},
			tile{"extensions", figures.Thousands(uint64(h.ExtensionsPerS)), "per s"},
			memory(r))
	}
	if r.ServerCPUUsPerLock > 0 {
		list = append(list, tile{
			"busiest server", figures.Significant(r.ServerCPUUsPerLock), "µs/lock",
		})
	}
	return append(
		list,
		tile{"no quorum", figures.Thousands(r.NoQuorum), "keys"},
		cpu(r),
		tile{"per flush", figures.Significant(r.OpsPerFlush), "operations"},
	)
}

// cpu is what a lock cost in this process.
func cpu(r *bench.Report) tile {
	if r.InProcess() {
		sum := figures.Known(r.CPUUsPerLockWithNodes)
		return tile{"CPU with nodes", figures.Significant(sum), "µs/lock"}
	}
	return tile{"client CPU", figures.Significant(figures.Known(r.ClientCPUUsPerLock)), "µs/lock"}
}

// memory is what a held lease took in this process.
func memory(r *bench.Report) tile {
	if r.InProcess() {
		return tile{
			"memory with nodes", short(figures.Known(r.RSSBytesPerLeaseWithNodes)), "B/lease",
		}
	}
	return tile{"memory", short(figures.Known(r.ClientRSSBytesPerLease)), "B/lease"}
}

// allocations is a row of what a lock took of this process.
func allocations(r *bench.Report) []string {
	if r.InProcess() {
		return []string{
			"allocations per lock, nodes included", figures.Significant(figures.Known(r.AllocsPerLockWithNodes)),
		}
	}
	return []string{"allocations per lock", figures.Significant(figures.Known(r.AllocsPerLock))}
}

// configuration is what was asked for.
func configuration(r *bench.Report) table {
	c := r.Config
	tab := table{Title: "Configuration", Head: []string{"setting", "value"}, Rows: [][]string{
		{"scenario", string(r.Scenario)},
		{"nodes", strings.ReplaceAll(c.Nodes, ",", ", ")},
		{"groups", figures.Thousands(r.Config.Groups)},
		{"backend", r.Backend},
		{"callers", figures.Thousands(c.Callers)},
		{"clients", figures.Thousands(c.Clients)},
		{"duration", duration(c.DurationS * 1000)},
		{"rate", "each caller calls again at once"},
		{"keys", figures.Thousands(c.Keys)},
		{"keys per call", figures.Thousands(c.Batch)},
		{"held for", duration(c.HoldMs)},
		{"extended for up to", duration(c.AutoExtendMs)},
		{"TTL", duration(c.TTLMs)},
		{"seed", fmt.Sprint(c.Seed)},
	}}
	if c.Rate > 0 {
		tab.Rows[7][1] = fmt.Sprintf("%g calls/s", c.Rate)
	}
	if c.Hot > 0 {
		tab.Rows = append(tab.Rows, []string{"hot keys", figures.Thousands(c.Hot)},
			[]string{"other keys per call", figures.Thousands(c.Others)},
			[]string{"cold callers", figures.Thousands(c.Cold)})
	}
	if c.Fencing {
		tab.Rows = append(tab.Rows, []string{"fencing", "every lock"})
	}
	if c.Faults != "" {
		tab.Rows = append(tab.Rows, []string{"faults", strings.ReplaceAll(c.Faults, ",", ", ")},
			[]string{"fault seed", fmt.Sprint(c.FaultSeed)})
	}
	return tab
}

// rest is every other number of the report.
func rest(r *bench.Report) table {
	tab := table{Title: "Totals", Head: []string{"what", "how many"}, Rows: [][]string{
		{"keys acquired", figures.Thousands(r.Acquired)},
		{"keys released", figures.Thousands(r.Released)},
		{"keys held by another", figures.Thousands(r.Refused)},
		{"keys without a quorum", figures.Thousands(r.NoQuorum)},
		{"keys expired", figures.Thousands(r.Expired)},
		{"keys lost", figures.Thousands(r.Lost)},
		{"keys of other errors", figures.Thousands(r.Errors)},
		allocations(r),
		{"goroutines before, at most, after", fmt.Sprintf("%d, %d, %d", r.GoroutinesBefore,
			r.GoroutinesMost, r.GoroutinesAfter)},
	}}
	if r.ServerCPUShare > 0 {
		tab.Rows = append(tab.Rows, []string{
			"busiest server, % of one CPU", figures.Significant(100 * r.ServerCPUShare),
		})
	}
	if h := r.HotReport; h != nil {
		tab.Rows = append(tab.Rows, []string{"hand-overs", figures.Thousands(h.Handovers)},
			[]string{"split votes", figures.Thousands(h.SplitVotes)},
			[]string{"locks per caller, coefficient of variation", figures.Significant(h.LocksPerCallerCV)},
			[]string{"locks of a hot key per s", figures.Significant(h.HotLocksPerS)},
			[]string{"most served caller, × mean", figures.Significant(h.MaxShare)},
			[]string{"least served client, × mean", figures.Significant(h.MinClientShare)})
		tab.Rows = append(tab.Rows, coldRows(h.Cold)...)
	}
	tab.Rows = append(tab.Rows, moveRows(r)...)
	if h := r.HoldReport; h != nil {
		tab.Rows = append(tab.Rows, []string{"taken in", duration(h.TakeS * 1000)},
			[]string{"held for", duration(h.KeepS * 1000)},
			[]string{"released in", duration(h.GiveS * 1000)},
			[]string{"nodes without an answer to a sample", figures.Thousands(h.Unanswered)})
	}
	return tab
}

// coldRows is what a run has about its cold callers, if there are any.
func coldRows(c *bench.ColdReport) [][]string {
	if c == nil {
		return nil
	}
	return [][]string{
		{"locks of cold callers per s", figures.Significant(c.LocksPerS)},
		{"cold wait p50", duration(c.WaitMs.P50)},
		{"cold wait p90", duration(c.WaitMs.P90)},
		{"cold wait p99", duration(c.WaitMs.P99)},
		{"cold wait p99.9", duration(c.WaitMs.P999)},
		{"cold wait max", duration(c.WaitMs.Max)},
		{"cold wait mean", duration(c.WaitMs.Mean)},
		{"longest cold wait", duration(c.MaxWaitMs)},
		{"least served cold caller, × mean", figures.Significant(c.MinShare)},
		{"most served cold caller, × mean", figures.Significant(c.MaxShare)},
	}
}

// percentiles is each latency of the whole run.
func percentiles(r *bench.Report) table {
	tab := table{Title: "Latency, whole run", Head: []string{"percentile"}}
	for _, row := range []struct {
		name string
		of   func(series.Latency) float64
	}{
		{"p50", func(l series.Latency) float64 { return l.P50 }},
		{"p90", func(l series.Latency) float64 { return l.P90 }},
		{"p99", func(l series.Latency) float64 { return l.P99 }},
		{"p99.9", func(l series.Latency) float64 { return l.P999 }},
		{"max", func(l series.Latency) float64 { return l.Max }},
		{"mean", func(l series.Latency) float64 { return l.Mean }},
	} {
		cells := []string{row.name}
		for _, m := range latencies(r) {
			cells = append(cells, duration(row.of(m.total)))
		}
		tab.Rows = append(tab.Rows, cells)
	}
	for _, m := range latencies(r) {
		tab.Head = append(tab.Head, m.id)
	}
	return tab
}

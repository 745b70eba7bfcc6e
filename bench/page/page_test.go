package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/faults"
	"github.com/lockpipe/lockpipe/bench/figures"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/series"
)

// written is the page of a report.
func written(t *testing.T, r *bench.Report, err error) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, r, err))
	return b.String()
}

// report is one with everything in it: three nodes, faults, an interval without any call.
func report() *bench.Report {
	spread := series.Spread{Calls: 90, P50: 0.5, P90: 1, P99: 2, Max: 40}
	intervals := []series.Interval{
		{
			AtS: 0, LengthS: 0.1, Tally: series.Tally{Acquired: 100, Released: 90},
			AcquireMs: spread,
			WaitMs:    spread, ReleaseMs: spread,
		},
		{AtS: 0.1, LengthS: 0.1, Tally: series.Tally{NoQuorum: 7, Lost: 1, Errors: 3, Refused: 9}},
		{
			AtS: 0.2, LengthS: 0.15, Tally: series.Tally{Acquired: 50, Released: 60},
			AcquireMs: spread,
			WaitMs:    spread, ReleaseMs: spread,
		},
	}
	buckets := []series.Bucket{
		{FromMs: 0, ToMs: 0.25, Calls: 3},
		{FromMs: 0.25, ToMs: 0.5},
		{FromMs: 0.5, ToMs: 1, Calls: 1234},
		{FromMs: 1, ToMs: 40, Calls: 5},
	}
	overTime := &series.Series{
		StepS: 0.1, Intervals: intervals, AcquireHistogram: buckets,
		WaitHistogram: buckets, ReleaseHistogram: buckets,
	}
	for i := range 3 {
		overTime.Nodes = append(overTime.Nodes, series.NodeSeries{
			Node: fmt.Sprintf("10.0.0.%d:6379", i+1), Flushes: 60, Operations: 600, FlushMs: spread,
			Failures:    map[string]uint64{"timeout": 11},
			FlushesEach: []uint64{30, 0, 30}, FlushP50MsEach: []float64{0.2, 0, 0.3},
			FlushP99MsEach: []float64{1.5, 0, 0.4}, FailuresEach: []uint64{0, 11, 0},
		})
	}
	latency := series.Latency{P50: 0.5, P90: 1, P99: 2, P999: 30, Max: 40, Mean: 0.7}
	return &bench.Report{
		Version: "v1.2.3", Scenario: bench.Hot, Backend: "redis-server", Nodes: 3, DurationS: 0.35,
		Started:  time.Unix(1e9, 0).UTC(),
		Acquired: 150, Released: 150, NoQuorum: 7, Lost: 1, Errors: 3, Refused: 9, LocksPerS: 428,
		AcquireMs: latency, ReleaseMs: latency,
		Config: bench.ReportConfig{
			Nodes: "local:3", Callers: 8, Clients: 1, Keys: 1,
			Batch: 1, DurationS: 0.3, TTLMs: 10_000, Faults: "freeze:1@100ms+50ms",
		},
		ErrorsByKind: map[string]uint64{"READONLY": 4711},
		Series:       overTime,
		FaultReport: &bench.FaultReport{KeysAtClose: 12, Faults: []faults.Result{
			{Fault: "freeze:1@100ms+50ms", Action: "freeze", Node: 1, FromS: 0.1, UntilS: 0.15},
			{Fault: "kill:2@200ms", Action: "kill", Node: 2, FromS: 0.2, UntilS: 0.201},
			{
				Fault: "restart:2@300ms", Action: "restart", Node: 2, FromS: 0.3, UntilS: 0.31,
				Error: "no such server",
			},
		}},
		HotReport: &bench.HotReport{
			WaitMs: latency, MaxWaitMs: 41, Handovers: 21,
			AttemptsPerLock: 0.5, MinShare: 0.8,
		},
	}
}

// variants are reports that a page must be able to show.
func variants() map[string]*bench.Report {
	moved := report()
	moved.Scenario, moved.HotReport = bench.Move, nil
	moved.Move = &fleet.Report{Replaced: 12, Calls: 9999, BothOverOld: 1.75}
	moved.Move.Phases = []fleet.PhaseReport{
		{Phase: "old alone", UntilS: 1.5, LocksPerS: 4321, WaitMs: series.Latency{P99: 33}},
		{Phase: "both", FromS: 3, UntilS: 4.5, Failed: 13},
	}
	hold := report()
	hold.Scenario, hold.HotReport = bench.Hold, nil
	hold.HoldReport = &bench.HoldReport{
		Leases: 5, Samples: 100, Missing: 2, FirstMissing: "key 5",
		ExtensionsPerS: 40,
	}
	hold.Series.Intervals[1].Extended = 77
	cart := report()
	cart.Scenario, cart.Config.Hot, cart.Config.Others, cart.Config.Cold = bench.Cart, 1, 2, 4
	cart.HotBusy = 0.75
	cart.Cold = &bench.ColdReport{
		LocksPerS: 321, WaitMs: cart.WaitMs, MaxWaitMs: 77, MaxShare: 1.25,
	}
	nothing := report()
	nothing.Acquired, nothing.Released, nothing.AcquireMs, nothing.ReleaseMs, nothing.HotReport = 0,
		0, series.Latency{}, series.Latency{}, nil
	nothing.Series = &series.Series{StepS: 0.1, Intervals: []series.Interval{{
		LengthS: 0.1,
		Tally:   series.Tally{NoQuorum: 5},
	}}}
	return map[string]*bench.Report{
		"full":    report(),
		"hold":    hold,
		"cart":    cart,
		"move":    moved,
		"no lock": nothing,
		"empty":   {},
		"0 s": {Series: &series.Series{
			StepS: 0.1, Intervals: []series.Interval{{}},
			Nodes: []series.NodeSeries{{Node: "a"}},
		}},
	}
}

// voidElements have no end tag in HTML.
var voidElements = regexp.MustCompile(`<(meta|br|link)\b([^>]*[^/>])>`)

// parsed reads a page as XML, which HTML that is written with care also is, and calls see for each
// element.
func parsed(t *testing.T, text string, see func(xml.StartElement)) {
	t.Helper()
	text = voidElements.ReplaceAllString(strings.TrimPrefix(text, "<!DOCTYPE html>"), "<$1$2/>")
	d := xml.NewDecoder(strings.NewReader(text))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			see(e)
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// Goal: every page is well-formed, each id is there once, references lead to ids, and every number
// is one.
func TestPage_IsWellFormed(t *testing.T) {
	for name, r := range variants() {
		t.Run(name, func(t *testing.T) {
			text := written(t, r, nil)
			ids, references := make(map[string]bool), []string{}
			parsed(t, text, func(e xml.StartElement) {
				if id := attribute(e, "id"); id != "" {
					require.False(t, ids[id], id)
					ids[id] = true
				}
				references = append(references, strings.Fields(attribute(e, "aria-labelledby"))...)
				for _, a := range e.Attr {
					require.NotContains(t, a.Value, "NaN")
					require.NotContains(t, a.Value, "Inf")
				}
			})
			for _, id := range references {
				require.True(t, ids[id], id)
			}
			require.NotContains(t, text, "ZgotmplZ", "html/template could not make it safe")
		})
	}
}

// Goal: a page needs nothing else. It names no other place, loads nothing and has no script.
func TestPage_NeedsNoNetwork(t *testing.T) {
	for name, r := range variants() {
		text := written(t, r, nil)
		for _, word := range []string{
			"http:", "https:", "//", "url(", "@import", "src=", "href",
			"<script", "<link", "<iframe", "<img",
		} {
			require.NotContains(t, text, word, name)
		}
		require.Contains(t, text, `content="default-src &#39;none&#39;`[:21],
			"what is overlooked here the browser refuses")
	}
}

// Goal: texts from outside stay texts in all places: in charts, tips, tables and the verdict.
func TestPage_EscapesHostileTexts(t *testing.T) {
	const hostile = `</title></style></script><script>alert(1)</script><b x="'&`
	r := report()
	r.Series.Nodes[0].Node, r.Config.Nodes, r.FirstError, r.Version, r.Backend = hostile, hostile,
		hostile, hostile, hostile
	r.Scenario, r.Config.Faults = bench.Scenario(hostile), hostile
	r.ErrorsByKind[hostile] = 1
	r.Series.Nodes[0].Failures[hostile] = 1
	for i := range r.Faults {
		r.Faults[i].Fault, r.Faults[i].Error = hostile, hostile
	}
	r.Faults[0].Action = hostile
	r.HoldReport = &bench.HoldReport{FirstMissing: hostile}
	text := written(t, r, errors.New(hostile))
	require.NotContains(t, text, "<script")
	require.NotContains(t, text, "<b ")
	require.Equal(t, 1, strings.Count(text, "</style>"))
	parsed(t, text, func(e xml.StartElement) {
		require.NotEqual(t, "script", e.Name.Local)
		require.Empty(t, attribute(e, "onload"))
	})
	require.Greater(t, strings.Count(text, "alert(1)"), 10, "it is shown")
}

// Goal: each chart has a title and a description, and a table with a row for each interval.
func TestChart_IsDescribedAndHasItsNumbers(t *testing.T) {
	drawings, tables, rows := 0, 0, 0
	parsed(t, written(t, report(), nil), func(e xml.StartElement) {
		switch {
		case e.Name.Local == "svg" && attribute(e, "role") == "img":
			drawings++
			require.Len(t, strings.Fields(attribute(e, "aria-labelledby")), 2)
		case e.Name.Local == "details":
			tables++
		case e.Name.Local == "tr":
			rows++
		}
	})
	require.Equal(t, 2+3*2+3, drawings, "throughput, failures, three latencies over time and as "+
		"histograms, three nodes")
	require.Equal(t, drawings, tables)
	require.Greater(t, rows, 8*3)
}

// Goal: what a reader must not miss is in words: the verdict, the faults and their times, and what
// failed.
func TestVerdict_IsInWords(t *testing.T) {
	text := written(t, report(), nil)
	for _, want := range []string{
		"<strong>Safe</strong>", "12 keys just after", "READONLY", "4,711",
		"node 2: kill, 0.2\u00a0s to 0.3\u00a0s", "(failed: no such server)", "F frozen",
		"timeout 11",
		"10.0.0.3:6379", "2001-09-09 01:46:40 UTC", "local:3",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "fence")
	for want, change := range map[string]func(*bench.Report){
		"1,000 violations":    func(r *bench.Report) { r.Violations = 1000 },
		"3 keys left behind":  func(r *bench.Report) { r.LeftoverKeys = 3 },
		"2 fence regressions": func(r *bench.Report) { r.FenceRegressions = 2 },
		"4 of 0 samples found a held lease without its keys": func(r *bench.Report) {
			r.HoldReport = &bench.HoldReport{Missing: 4}
		},
	} {
		r := report()
		change(r)
		text := written(t, r, nil)
		require.Contains(t, text, "<strong>Not safe</strong>")
		require.Contains(t, text, want)
	}
	text = written(t, report(), errors.New("a node could not be searched"))
	require.Contains(t, text, "<strong>Not known to be safe</strong>")
	require.Contains(t, text, "a node could not be searched")
}

// Goal: the page of the scenario cart has what its callers asked for, and what they got.
func TestPage_ShowsTheHotKeyAndColdCallers(t *testing.T) {
	text := written(t, variants()["cart"], nil)
	for _, want := range []string{
		"8 callers and 4 cold callers on 1 client", "hot key in use", "75", "other keys per call",
		"locks of cold callers per s", "321", "77\u00a0ms", "1.25", "least served client",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, written(t, report(), nil), "cold")
}

// Goal: the page says what nodes in this process are, before other notes, and nothing of servers.
func TestPage_ShowsTheNodesNote(t *testing.T) {
	r := report()
	require.NotContains(t, written(t, r, nil), "memory of")
	r.NodesNote = "In the memory of <this>. Install one."
	var b bytes.Buffer
	require.NoError(t, Write(&b, r, nil, "another note"))
	require.Regexp(t, `>In the memory of &lt;this&gt;\. Install one\.</p>\n.*another note`, b.String())
}

// Goal: the page says of what this process used whose it is: the client's, or with nodes in this
// process also theirs.
func TestPage_SaysWhoseTheCostIs(t *testing.T) {
	r := variants()["hold"]
	cpu, allocs, memory := 5.5, 3.25, 3210.0
	r.ClientCPUUsPerLock, r.AllocsPerLock, r.ClientRSSBytesPerLease = &cpu, &allocs, &memory
	text := written(t, r, nil)
	for _, want := range []string{
		"client CPU</dt><dd>5.5 ", "memory</dt><dd>3.21k ", "allocations per lock</th><td>3.25<",
	} {
		require.Contains(t, text, want)
	}
	r.Backend = "in-process"
	cpu, allocs, memory = 142, 276, 6540
	r.CPUUsPerLockWithNodes, r.AllocsPerLockWithNodes = &cpu, &allocs
	r.RSSBytesPerLeaseWithNodes = &memory
	text = written(t, r, nil)
	for _, want := range []string{
		"CPU with nodes</dt><dd>142 ", "memory with nodes</dt><dd>6.54k ",
		"allocations per lock, nodes included</th><td>276<",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "client CPU")
}

// Goal: the page of the scenario move has its phases.
func TestPage_ShowsTheMove(t *testing.T) {
	text := written(t, variants()["move"], nil)
	for _, want := range []string{
		"old alone", "both", "4,321", "33\u00a0ms", "9,999", "1.75", "wait p99 with both layouts",
		"while their fleet moves",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, written(t, report(), nil), "clients replaced")
}

// Goal: lines and bands are at their times and values.
func TestChart_IsAtItsTimes(t *testing.T) {
	list := charts(report())
	c := list[0]
	require.Equal(t, "throughput", c.ID)
	require.Equal(t, "M142.9 0.0L428.6 180.0L785.7 120.0", c.Lines[0].Path,
		"1000, 0 and 333 a second, at 50, 150 and 275 of 350 ms")
	require.Equal(t, band{X: "28.571%", Width: "14.286%", Tip: "node 1: freeze, 0.1\u00a0s to " +
		"0.15\u00a0s"}, c.Bands[0])
	require.Equal(t, "28.571%", c.Bands[1].Width, "killed until its restart")
	require.Len(t, c.Lanes, 2)
	acquire := list[2]
	require.Equal(t, "acquire-time", acquire.ID)
	require.Empty(t, acquire.Lines[0].Path)
	require.Equal(t, 2, strings.Count(acquire.Lines[0].Dots, "M"),
		"between them is an interval without a call")
}

// Goal: axes begin and end around all values, and their ticks are round, in order and few.
func TestScale_FitsTheValues(t *testing.T) {
	for _, v := range []float64{0, 1e-9, 0.3, 1, 7, 48_844, 1e6, 123e9} {
		s, ticks := linear(v, maxYTicks)
		require.GreaterOrEqual(t, s.high, v)
		require.LessOrEqual(t, len(ticks), maxYTicks+1)
		require.GreaterOrEqual(t, len(ticks), 2)
		require.Zero(t, s.at(0))
		require.InDelta(t, 1, s.at(ticks[len(ticks)-1]), 1e-9)
	}
	for _, ends := range [][2]float64{
		{0.001, 0.001},
		{0.5, 1},
		{0.06, 47},
		{1, 1},
		{0.001, 60_000},
		{0.9, 1.1},
		{2, 2.0001},
	} {
		s, ticks := logarithmic(ends[0], ends[1], maxLogTicks)
		require.LessOrEqual(t, s.low, ends[0]*(1+1e-9), ends)
		require.GreaterOrEqual(t, s.high, ends[1]*(1-1e-9), ends)
		require.Less(t, s.low, s.high)
		require.LessOrEqual(t, len(ticks), maxLogTicks)
		require.NotEmpty(t, ticks)
		require.False(t, math.IsNaN(s.at(0)))
	}
	require.InDelta(t, 0.5, scale{low: 1, high: 100, log: true}.at(10), 1e-9)
}

// Goal: numbers are short, with their unit.
func TestText_NumbersAreShort(t *testing.T) {
	for want, got := range map[string]string{
		"0": duration(0), "5\u00a0µs": duration(0.005), "1\u00a0ms": duration(1),
		"1.29\u00a0ms": duration(1.285001), "103\u00a0ms": duration(103.4),
		"1\u00a0s": duration(999.9), "10\u00a0min": duration(600_000), "1.5M": short(1_500_000),
		"48.8k": short(48_844), "7": short(7), "1,234,567": figures.Thousands(1234567),
		"1 node": figures.Plural(1, "node"), "12.3\u00a0s": clockFor(20).at(12.3),
		"2\u00a0min": clockFor(600).at(120), "1.5\u00a0h": clockFor(1e6).at(5400),
	} {
		require.Equal(t, want, got)
	}
}

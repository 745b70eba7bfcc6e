package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// picture is a file for docs/benchmarks.
type picture struct{ name, text string }

// pictures draws what there are results of, in this order.
func (r *report) pictures() []picture {
	var all []picture
	if p := r.peers(); len(p.charts) > 0 {
		all = append(all, picture{"peers.svg", p.draw()})
	}
	for _, c := range r.Growth {
		all = append(all, picture{c.Scenario + ".svg", r.lines(c).draw()})
	}
	if r.Held != nil {
		drawn := r.Held.lines(r.masters(r.Held.Scenario))
		all = append(all, picture{r.Held.Scenario + ".svg", drawn.draw()})
	}
	if p := r.latencies(); len(p.groups) > 0 {
		all = append(all, picture{"latency.svg", p.draw()})
	}
	return all
}

// called are the names of contenders for readers.
var called = map[string]string{
	"redsync-rueidis": "redsync over rueidis",
	"redsync-goredis": "redsync over go-redis",
	"pipeline":        "bare commands, pipelined",
	"redislock":       "redislock (one master)",
	"rueidislock":     "rueidislock (one master)",
}

// title is a line's name for readers: that of the contender in place of its code, and what follows
// it.
func title(label string) string {
	name, more, found := strings.Cut(label, ",")
	if full, known := called[name]; known {
		name = full
	}
	if found {
		return name + "," + more
	}
	return name
}

// peers is what compares the contenders' throughput.
func (r *report) peers() bars {
	p := bars{
		title: "Locks per second, and how many times those of " + title(baseline),
		note: "Acquire and release of distinct keys on " + r.masters("one") + "; medians of " +
			"interleaved rounds. Grey: others; faint: a lock on one master only",
	}
	for _, name := range []string{"one", "64", "512", "batch"} {
		t, found := r.table(name)
		if !found {
			continue
		}
		c := barChart{title: strings.ReplaceAll(t.About, "one key a call", "locks/s")}
		if t.Keys > 1 {
			c.title += ", keys/s"
		}
		for _, s := range t.Lines {
			class := rest
			switch {
			case s.Contender == lockpipeName:
				class = first
			case strings.HasPrefix(s.Where, onOne):
				class = faint
			}
			c.bars = append(c.bars, bar{
				title(s.Contender), class, s.PerSecond,
				fmt.Sprintf("%s · %s×", figures.SignificantThousands(s.PerSecond), times(s.Ratio)),
			})
		}
		if one, measured := r.onOneMaster(t); measured {
			c.bars = append(c.bars, bar{
				"lockpipe (one master)", faint, one.PerSecond,
				figures.SignificantThousands(one.PerSecond) + " (apart)",
			})
			p.note += ". Apart: measured in other rounds"
		}
		p.charts = append(p.charts, c)
	}
	return p
}

// onOneMaster returns what lockpipe did on one master with the callers and keys of a table. It was
// measured for the growth, so it has no ratio.
func (r *report) onOneMaster(t table) (point, bool) {
	if load, _ := growthNodes.at(1); t.Callers != load.callers || t.Keys != load.keys {
		return point{}, false
	}
	for _, c := range r.Growth {
		if c.Axis != growthNodes.axis {
			continue
		}
		for _, p := range c.Points {
			if p.Size == 1 {
				return p, true
			}
		}
	}
	return point{}, false
}

// masters is how many masters a scenario was measured on: five masters.
func (r *report) masters(scenario string) string {
	for _, run := range r.Runs {
		if slices.Contains(run.Scenarios, scenario) && run.Nodes == 5 {
			return "five masters"
		} else if slices.Contains(run.Scenarios, scenario) {
			return figures.Plural(run.Nodes, "master")
		}
	}
	return "the same masters"
}

// latencies has the figures of acquire and release.
func (r *report) latencies() dots {
	p := dots{
		title: "How long an acquire takes",
		note: "At a distance from " + r.masters("far") + ", and while leases are held; " +
			"logarithmic. At the right: acquire p50 / acquire p99 / release p50",
		legend: []string{"acquire p50", "acquire p99", "release p50"},
	}
	for _, name := range []string{"far", "mixed", "held"} {
		t, found := r.table(name)
		if !found {
			continue
		}
		g := dotGroup{title: t.About}
		for _, s := range t.Lines {
			g.rows = append(g.rows, dotRow{title(s.Contender), []float64{
				s.P50, s.P99,
				s.ReleaseP50,
			}})
		}
		p.groups = append(p.groups, g)
	}
	return p
}

// lines is the curve as a picture: what a lock costs, and how many there are.
func (r *report) lines(c curve) lines {
	price := lineChart{title: "Client CPU per " + c.Unit + " in microseconds", axis: c.label()}
	speed := lineChart{
		title: strings.ToUpper(c.Unit[:1]) + c.Unit[1:] + "s per second",
		axis:  c.label(),
	}
	var costs, speeds []spread
	notes := []string{c.About}
	if c.Axis != growthNodes.axis {
		notes = append(notes, r.masters(c.Scenario))
	}
	notes = append(notes, "medians, with the lowest and highest of the rounds")
	for _, p := range c.Points {
		if p.Errors > 0 {
			notes = append(notes, fmt.Sprintf("%s calls failed at %s", figures.Thousands(p.Errors),
				figures.Thousands(p.Size)))
		}
		price.sizes = append(price.sizes, figures.Thousands(p.Size))
		costs = append(costs, spreadOf(p.Rounds, round.cpuPerLock))
		speeds = append(speeds, spread{p.Lowest, p.PerSecond, p.Highest})
	}
	speed.sizes = price.sizes
	price.series = []series{{"client CPU", first, costs}}
	speed.series = []series{{"throughput", first, speeds}}
	return lines{
		title: "lockpipe with more and more " + c.label(), note: strings.Join(notes, "; "),
		charts: []lineChart{price, speed},
	}
}

// label is what the points differ in, for readers.
func (c curve) label() string {
	if c.Axis == "keys" {
		return "keys a call"
	}
	return c.Axis
}

func (c heldCurve) lines(masters string) lines {
	extension := lineChart{
		title: "Client CPU per extension in microseconds",
		axis:  "held leases, and their TTL",
	}
	second := lineChart{
		title: "Client CPU per lease and second in microseconds",
		axis:  extension.axis,
	}
	var each, lasting []spread
	for _, p := range c.Points {
		extension.sizes = append(extension.sizes, fmt.Sprintf("%s, %g s",
			figures.Thousands(p.Leases), p.TTLSeconds))
		each = append(each, spreadOf(p.Rounds, heldRound.perExtension))
		lasting = append(lasting, spreadOf(p.Rounds,
			func(r heldRound) float64 { return r.perLease(p.Leases) }))
	}
	second.sizes = extension.sizes
	extension.series = []series{{"client CPU", first, each}}
	second.series = []series{{"client CPU", first, lasting}}
	return lines{
		title: "lockpipe with more and more held leases", note: c.About + "; " + masters +
			"; medians, with the lowest and highest of the rounds",
		charts: []lineChart{extension, second},
	}
}

// spreadOf is the median of the rounds with their extremes.
func spreadOf[T any](rounds []T, value func(T) float64) spread {
	if len(rounds) == 0 {
		return spread{}
	}
	all := make([]float64, len(rounds))
	low, high := value(rounds[0]), value(rounds[0])
	for i, r := range rounds {
		all[i] = value(r)
		low, high = min(low, all[i]), max(high, all[i])
	}
	return spread{low, median(all), high}
}

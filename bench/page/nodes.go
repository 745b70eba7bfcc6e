package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
	"github.com/lockpipe/lockpipe/bench/series"
)

const (
	nodeHeight  = 84.0
	stripHeight = 26.0
	stripGap    = 14.0
)

// nodeCharts returns one small figure for each node: how long flushes to it took, below that how
// often it had no vote, and when it had faults. All have the same axes, so that they can be
// compared.
func nodeCharts(r *bench.Report) []chart {
	if r.Series == nil {
		return nil
	}
	t := newTimeline(r)
	y, ticks, worst := nodeScale(r.Series)
	var list []chart
	for i, n := range r.Series.Nodes {
		c := frame(fmt.Sprintf("node-%d", i+1), fmt.Sprintf("Node %d: %s", i+1, n.Node), nodeHeight)
		c.Desc = "Half of the trips to this node took no longer than p50, and 99 of 100 no " +
			"longer than p99, on a logarithmic axis; below it the operations a " +
			"second for which it had no vote."
		c.YLabel, c.XLabel = "trip, logarithmic; failures", "time since the first call"
		if y.high == 0 {
			c.Empty = "No trip was made."
			list = append(list, c)
			continue
		}
		top := nodeHeight + stripGap + stripHeight
		c.Tall, c.Below, c.Whole = pixels(top), pixels(top+16), pixels(top+axisHeight)
		c.xAxis(t.x, t.ticks, t.clock.at)
		c.yAxis(y, ticks, duration)
		c.Bands = t.faults(i + 1)
		t.flushes(&c, n, y)
		t.strip(&c, n, worst)
		list = append(list, c)
	}
	return list
}

// nodeScale returns the axis of all nodes' flushes, and the most failures a second of any.
func nodeScale(s *series.Series) (y scale, ticks []float64, worst float64) {
	lowest, highest := 0.0, 0.0
	for _, n := range s.Nodes {
		for i, interval := range s.Intervals[:min(len(s.Intervals), len(n.FlushesEach))] {
			worst = max(worst, perSecond(n.FailuresEach[i], interval.LengthS))
			if n.FlushesEach[i] == 0 || n.FlushP50MsEach[i] <= 0 {
				continue
			}
			if highest = max(highest, n.FlushP99MsEach[i]); lowest == 0 ||
				n.FlushP50MsEach[i] < lowest {
				lowest = n.FlushP50MsEach[i]
			}
		}
	}
	if highest == 0 {
		return scale{}, nil, worst
	}
	y, ticks = logarithmic(lowest, highest, 4)
	return y, ticks, worst
}

// flushes draws how long they took.
func (t *timeline) flushes(c *chart, n series.NodeSeries, y scale) {
	c.Table = table{Title: c.Title, Head: []string{"from", "trips", "p50", "p99", "failures"}}
	c.Legend = []key{{"q1", "p50"}, {"q3", "p99"}, {"failure", "failures a second"}}
	var half, most []point
	for i, interval := range t.intervals[:min(len(t.intervals), len(n.FlushesEach))] {
		x, there := t.across(interval.AtS+interval.LengthS/2), n.FlushesEach[i] > 0
		half = append(half, point{x, n.FlushP50MsEach[i], there})
		most = append(most, point{x, n.FlushP99MsEach[i], there})
		row := []string{
			t.clock.at(interval.AtS), figures.Thousands(n.FlushesEach[i]), known(n.FlushesEach[i],
				n.FlushP50MsEach[i]),
			known(n.FlushesEach[i], n.FlushP99MsEach[i]), figures.Thousands(n.FailuresEach[i]),
		}
		c.Table.Rows = append(c.Table.Rows, row)
		tip := fmt.Sprintf("%s\ntrips: %s\np50: %s\np99: %s\nfailures: %s", row[0], row[1], row[2],
			row[3], row[4])
		c.Tips = append(c.Tips, t.band(interval.AtS, interval.AtS+interval.LengthS, tip))
	}
	c.Lines = []line{join("q1", half, y, nodeHeight), join("q3", most, y, nodeHeight)}
}

// strip draws failures below the flushes.
func (t *timeline) strip(c *chart, n series.NodeSeries, worst float64) {
	bottom := nodeHeight + stripGap + stripHeight
	c.Strip = &strip{
		Y: pixels(bottom), Top: pixels(nodeHeight + stripGap),
		Height: pixels(stripHeight), Label: short(worst) + "/s",
	}
	for i, interval := range t.intervals[:min(len(t.intervals), len(n.FailuresEach))] {
		rate := perSecond(n.FailuresEach[i], interval.LengthS)
		if rate == 0 {
			continue
		}
		high := max(stripHeight*rate/worst, 1.5) // so that one of many thousands is seen
		b := t.band(interval.AtS, interval.AtS+interval.LengthS, "")
		c.Strip.Bars = append(c.Strip.Bars, bar{
			X: b.X, Width: b.Width, Y: pixels(bottom - high),
			Height: pixels(high),
		})
	}
}

// nodeTable is what the nodes did in the whole run.
func nodeTable(r *bench.Report) table {
	tab := table{Title: "Nodes", Wide: true, Head: []string{
		"node", "trips", "operations", "p50",
		"p90", "p99", "connects", "disconnects", "failures",
	}}
	if r.Series == nil {
		return tab
	}
	for i, n := range r.Series.Nodes {
		var failures []string
		for _, reason := range slices.Sorted(maps.Keys(n.Failures)) {
			failures = append(failures, reason+" "+figures.Thousands(n.Failures[reason]))
		}
		if failures == nil {
			failures = []string{"none"}
		}
		tab.Rows = append(tab.Rows, []string{
			fmt.Sprintf("%d: %s", i+1, n.Node),
			figures.Thousands(n.Flushes), figures.Thousands(n.Operations),
			known(n.FlushMs.Calls, n.FlushMs.P50),
			known(n.FlushMs.Calls, n.FlushMs.P90), known(n.FlushMs.Calls, n.FlushMs.P99),
			figures.Thousands(n.Connects), figures.Thousands(n.Disconnects),
			strings.Join(failures, ", "),
		})
	}
	return tab
}

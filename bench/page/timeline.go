package page

import (
	"fmt"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/series"
)

// timeline is what all charts over time have in common.
type timeline struct {
	report    *bench.Report
	intervals []series.Interval
	x         scale
	ticks     []float64
	clock     clock
}

func newTimeline(r *bench.Report) *timeline {
	t := &timeline{report: r}
	end := r.DurationS
	if r.Series != nil {
		t.intervals = r.Series.Intervals
	}
	if n := len(t.intervals); n > 0 {
		end = max(end, t.intervals[n-1].AtS+t.intervals[n-1].LengthS)
	}
	t.clock = clockFor(end)
	x, ticks := until(end/t.clock.seconds, maxXTicks)
	x.high *= t.clock.seconds
	for i := range ticks {
		ticks[i] *= t.clock.seconds
	}
	t.x, t.ticks = x, ticks
	return t
}

// frame is a chart over time, with the faults behind it.
func (t *timeline) frame(id, title string) chart {
	c := frame(id, title, plotHeight)
	c.XLabel = "time since the first call"
	c.xAxis(t.x, t.ticks, t.clock.at)
	c.Bands = t.faults(everyNode)
	return c
}

// across is the part of the width at a time.
func (t *timeline) across(seconds float64) float64 { return t.x.at(seconds) }

// band is a part of the time with what is to be said of it.
func (t *timeline) band(from, until float64, tip string) band {
	a, b := t.across(from), t.across(until)
	return band{X: percent(a), Width: percent(b - a), Tip: tip}
}

// curve is one line of a chart over time. Where there is no value the line is interrupted.
type curve struct {
	name  string
	class string
	value func(series.Interval) (v float64, there bool)
}

// draw draws the curves, with their numbers in a tip on each interval and in the table.
func (t *timeline) draw(c *chart, y scale, curves []curve, text func(float64) string) {
	c.Table = table{Title: c.Title, Head: []string{"from"}}
	for _, curve := range curves {
		var points []point
		for _, i := range t.intervals {
			v, there := curve.value(i)
			points = append(points, point{t.across(i.AtS + i.LengthS/2), v, there})
		}
		c.Lines = append(c.Lines, join(curve.class, points, y, c.height))
		c.Legend = append(c.Legend, key{curve.class, curve.name})
		c.Table.Head = append(c.Table.Head, curve.name)
	}
	for _, i := range t.intervals {
		row, tip := []string{t.clock.at(i.AtS)}, t.clock.at(i.AtS)
		for _, curve := range curves {
			said := "–"
			if v, there := curve.value(i); there {
				said = text(v)
			}
			row = append(row, said)
			tip += fmt.Sprintf("\n%s: %s", curve.name, said)
		}
		c.Table.Rows = append(c.Table.Rows, row)
		c.Tips = append(c.Tips, t.band(i.AtS, i.AtS+i.LengthS, tip))
	}
}

// extremes returns the smallest value of all curves above 0, and the largest. Both are 0 if there
// is none.
func (t *timeline) extremes(curves []curve) (lowest, highest float64) {
	for _, i := range t.intervals {
		for _, curve := range curves {
			v, there := curve.value(i)
			if !there || v <= 0 {
				continue
			}
			if lowest == 0 || v < lowest {
				lowest = v
			}
			highest = max(highest, v)
		}
	}
	return lowest, highest
}

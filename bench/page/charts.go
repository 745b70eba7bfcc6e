package page

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
	"github.com/lockpipe/lockpipe/bench/series"
)

// charts are all figures of a report, in the order in which they are read.
func charts(r *bench.Report) []chart {
	t := newTimeline(r)
	list := []chart{throughput(t), failures(t)}
	for _, l := range latencies(r) {
		list = append(list, overTime(t, l), histogram(l))
	}
	return list
}

// throughput is what was done over time, with the faults in lanes below it.
func throughput(t *timeline) chart {
	c := t.frame("throughput", "Locks per second")
	c.Wide = true
	c.Desc = "How many locks a second were acquired in each interval of the run, and which " +
		"nodes were hurt meanwhile."
	curves := []curve{{"acquired", "s1", rate(func(i series.Tally) uint64 { return i.Acquired })}}
	if t.report.HoldReport != nil {
		curves = append(
			curves,
			curve{"extended", "s2", rate(func(i series.Tally) uint64 { return i.Extended })},
			curve{"released", "s3", rate(func(i series.Tally) uint64 { return i.Released })},
		)
	}
	t.rates(&c, curves)
	t.lanes(&c)
	return c
}

// failures is what was not granted, or not kept, over time.
func failures(t *timeline) chart {
	c := t.frame("failures", "Not granted, or not kept")
	c.Wide = true
	c.Desc = "How many keys a second were refused, found no quorum, or ended in another way " +
		"than by their release."
	var curves []curve
	for i, one := range []struct {
		name  string
		count func(series.Tally) uint64
		all   uint64
	}{
		{"held by another", func(i series.Tally) uint64 { return i.Refused }, t.report.Refused},
		{"no quorum", func(i series.Tally) uint64 { return i.NoQuorum }, t.report.NoQuorum},
		{
			"lost or expired", func(i series.Tally) uint64 { return i.Lost + i.Expired },
			t.report.Lost + t.report.Expired,
		},
		{"other errors", func(i series.Tally) uint64 { return i.Errors }, t.report.Errors},
	} {
		if one.all > 0 {
			curves = append(curves, curve{one.name, fmt.Sprintf("s%d", i+1), rate(one.count)})
		}
	}
	if len(curves) == 0 {
		c.Empty = "None: every key was granted, and every lease was released in time."
		return c
	}
	if len(t.report.ErrorsByKind) > 0 {
		c.Said = append(c.Said, "Failed calls by kind (a call may have several):")
	}
	for _, kind := range slices.Sorted(maps.Keys(t.report.ErrorsByKind)) {
		c.Said = append(c.Said, figures.Thousands(t.report.ErrorsByKind[kind])+" × "+kind)
	}
	if text := noQuorum(t.report); text != "" {
		c.Said = append(c.Said, text)
	}
	t.rates(&c, curves)
	return c
}

// rates draws numbers a second.
func (t *timeline) rates(c *chart, curves []curve) {
	if len(t.intervals) == 0 {
		c.Empty = "The report has no series."
		return
	}
	_, highest := t.extremes(curves)
	y, ticks := linear(highest, maxYTicks)
	c.YLabel = "keys per second"
	c.yAxis(y, ticks, short)
	t.draw(c, y, curves, func(v float64) string { return short(v) + "/s" })
}

// rate makes a curve of counts.
func rate(count func(series.Tally) uint64) func(series.Interval) (float64, bool) {
	return func(i series.Interval) (float64, bool) {
		return perSecond(count(i.Tally), i.LengthS),
			i.LengthS > 0
	}
}

// measure is one of the times that were measured.
type measure struct {
	id, title, of string
	total         series.Latency
	each          func(series.Interval) series.Spread
	histogram     []series.Bucket
}

// latencies are those that the report has.
func latencies(r *bench.Report) []measure {
	s := r.Series
	if s == nil {
		s = &series.Series{}
	}
	from := ""
	if r.Config.Rate > 0 {
		from = ", from when it was due"
	}
	list := []measure{{
		"acquire", "Acquire", "how long a call took that was granted" + from, r.AcquireMs,
		func(i series.Interval) series.Spread { return i.AcquireMs }, s.AcquireHistogram,
	}}
	if r.HotReport != nil {
		list = append(list, measure{
			"wait", "Wait", "how long a call waited until it was granted", r.WaitMs,
			func(i series.Interval) series.Spread { return i.WaitMs }, s.WaitHistogram,
		})
	}
	return append(list, measure{
		"release", "Release", "how long a release took", r.ReleaseMs,
		func(i series.Interval) series.Spread { return i.ReleaseMs }, s.ReleaseHistogram,
	})
}

// overTime is a latency in each interval.
func overTime(t *timeline, l measure) chart {
	c := t.frame(l.id+"-time", l.title+" latency over time")
	c.Desc = "Percentiles of " + l.of + ", in each interval of the run, on a logarithmic axis."
	var curves []curve
	for _, one := range []struct {
		name, class string
		of          func(series.Spread) float64
	}{
		{"p50", "q1", func(s series.Spread) float64 { return s.P50 }},
		{"p99", "q3", func(s series.Spread) float64 { return s.P99 }},
	} {
		curves = append(curves, curve{
			one.name, one.class,
			func(i series.Interval) (float64, bool) {
				return one.of(l.each(i)), l.each(i).Calls > 0
			},
		})
	}
	lowest, highest := t.extremes(curves)
	if highest == 0 {
		c.Empty = nothingMeasured
		return c
	}
	y, ticks := logarithmic(lowest, highest, maxLogTicks)
	c.YLabel = "latency, logarithmic"
	c.yAxis(y, ticks, duration)
	t.draw(&c, y, curves, duration)
	return c
}

const nothingMeasured = "Nothing was measured: no call was granted."

// histogram is how a latency is distributed over the whole run. Both axes are logarithmic, since
// the few slow calls matter.
func histogram(l measure) chart {
	c := frame(l.id+"-histogram", l.title+" latency, whole run", plotHeight)
	c.Desc = "How many calls took how long: " + l.of + ". Both axes are logarithmic."
	c.Table = table{Title: c.Title, Head: []string{"from", "to", "calls"}}
	most := uint64(0)
	for _, b := range l.histogram {
		most = max(most, b.Calls)
	}
	if most == 0 {
		c.Empty = nothingMeasured
		return c
	}
	x, xTicks := between(max(l.histogram[0].FromMs, 0.001), l.histogram[len(l.histogram)-1].ToMs,
		maxXTicks)
	y, yTicks := logarithmic(0.5, float64(most), maxLogTicks)
	c.xAxis(x, xTicks, duration)
	c.yAxis(y, slices.DeleteFunc(yTicks, func(calls float64) bool { return calls < 1 }), short)
	c.YLabel, c.XLabel = "calls, logarithmic", "latency, logarithmic"
	for _, b := range l.histogram {
		if b.Calls == 0 {
			continue
		}
		from, to, high := x.at(b.FromMs), x.at(b.ToMs), plotHeight*y.at(float64(b.Calls))
		said := []string{duration(b.FromMs), duration(b.ToMs), figures.Thousands(b.Calls)}
		c.Bars = append(c.Bars, bar{
			percent(from), percent(to - from), pixels(plotHeight - high), pixels(high),
			fmt.Sprintf("%s to %s: %s calls", said[0], said[1], said[2]),
		})
		c.Table.Rows = append(c.Table.Rows, said)
	}
	for i, p := range []struct {
		name string
		ms   float64
	}{{"p50", l.total.P50}, {"p99", l.total.P99}, {"p99.9", l.total.P999}} {
		if p.ms > 0 {
			c.Notes = append(c.Notes, noteAt(x.at(p.ms), 13*float64(i-3), p.name))
			c.Said = append(c.Said, p.name+" "+duration(p.ms))
		}
	}
	return c
}

// noteAt returns a note above the chart, on the side of its line that has room.
func noteAt(part, y float64, text string) note {
	anchor := "start"
	if part > 0.85 {
		anchor = "end"
	}
	return note{X: percent(part), Y: pixels(y), Text: pixels(y + 10), Anchor: anchor, Word: text}
}

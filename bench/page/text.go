package page

import (
	"math"
	"strconv"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// short is a number of an axis: 1500000 is 1.5M.
func short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size {
			return figures.Significant(v/unit.size) + unit.name
		}
	}
	return figures.Significant(v)
}

// space is one that never ends a line.
const space = "\u00a0"

// duration is milliseconds in the unit that fits.
func duration(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms < 0.9995:
		return figures.Significant(ms*1000) + space + "µs"
	case ms < 999.5:
		return figures.Significant(ms) + space + "ms"
	case ms < 120_000:
		return figures.Significant(ms/1000) + space + "s"
	}
	return figures.Significant(ms/60_000) + space + "min"
}

// known is a duration, or a dash if nothing was measured.
func known(calls uint64, ms float64) string {
	if calls == 0 {
		return "–"
	}
	return duration(ms)
}

// perSecond is a rate.
func perSecond(n uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// clock is a unit for the time since the first call.
type clock struct {
	name    string
	seconds float64
}

// clockFor is the unit in which a run of so many seconds is easy to read.
func clockFor(seconds float64) clock {
	switch {
	case seconds <= 180:
		return clock{"s", 1}
	case seconds <= 3*3600:
		return clock{"min", 60}
	}
	return clock{"h", 3600}
}

// at is a moment: 12.3 s.
func (c clock) at(seconds float64) string {
	return strconv.FormatFloat(math.Round(seconds/c.seconds*1000)/1000, 'f', -1, 64) + space +
		c.name
}

package page

import (
	"math"
	"strconv"
)

// count groups the digits by three.
func count(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// plural is so many of something.
func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return count(uint64(n)) + " " + word
}

// short is a number of an axis: 1500000 is 1.5M.
func short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size {
			return trimmed(v/unit.size) + unit.name
		}
	}
	return trimmed(v)
}

// trimmed is a number to three digits, without zeros that say nothing.
func trimmed(v float64) string { return strconv.FormatFloat(roundTo(v, 3), 'f', -1, 64) }

func roundTo(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	power := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*power) / power
}

// space is one that never ends a line.
const space = "\u00a0"

// duration is milliseconds in the unit that fits.
func duration(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms < 0.9995:
		return trimmed(ms*1000) + space + "µs"
	case ms < 999.5:
		return trimmed(ms) + space + "ms"
	case ms < 120_000:
		return trimmed(ms/1000) + space + "s"
	}
	return trimmed(ms/60_000) + space + "min"
}

// known is a duration, or a dash where nothing was measured.
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

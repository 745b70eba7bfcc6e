package page

import (
	"fmt"
	"math"
)

// scale maps values to a part of an axis, from 0 to 1.
type scale struct {
	low, high float64 // above 0 where it is logarithmic
	log       bool
}

// at is where a value is; what lies outside is at the nearer end.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, s.low))
	}
	if high <= low {
		return 0
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// linear is from 0 to a round number that is not below the highest value, with a few ticks.
func linear(highest float64, most int) (scale, []float64) {
	if highest <= 0 {
		highest = 1
	}
	step := roundStep(highest / float64(most))
	top := step * math.Ceil(highest/step-1e-9)
	return scale{high: top}, multiples(step, top)
}

// until is from 0 to exactly the highest value, with a few ticks.
func until(highest float64, most int) (scale, []float64) {
	if highest <= 0 {
		highest = 1
	}
	return scale{high: highest}, multiples(roundStep(highest/float64(most)), highest)
}

// multiples are those of a step from 0 to the top.
func multiples(step, top float64) (ticks []float64) {
	for i := 0.0; i*step <= top*(1+1e-9); i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// roundStep is 1, 2 or 5 times a power of ten, and not below a number above 0.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logarithmic is from one power of ten to another, around all values, which are above 0. The powers are the ticks.
func logarithmic(lowest, highest float64) (scale, []float64) {
	from, to := math.Floor(math.Log10(lowest)+1e-9), math.Ceil(math.Log10(highest)-1e-9)
	if to <= from {
		to = from + 1
	}
	var ticks []float64
	for p := from; p <= to; p++ {
		ticks = append(ticks, math.Pow(10, p))
	}
	return scale{low: math.Pow(10, from), high: math.Pow(10, to), log: true}, ticks
}

// percent is a part of an axis as SVG wants it.
func percent(part float64) string { return fmt.Sprintf("%.3f%%", 100*part) }

// pixels is a length as SVG wants it.
func pixels(v float64) string { return fmt.Sprintf("%.1f", v) }

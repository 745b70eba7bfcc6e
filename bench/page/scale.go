package page

import (
	"fmt"
	"math"
)

// scale maps values to a part of an axis, from 0 to 1.
type scale struct {
	low, high float64 // above 0 if it is logarithmic
	log       bool
}

// at returns where a value is, which is not below 0. A value outside is at the nearer end.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
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

// logarithmic is from a round number to another, around all values, which are above 0. The ticks
// are round numbers: powers of ten if others would be too many.
func logarithmic(lowest, highest float64, most int) (scale, []float64) {
	low, high := roundStep(lowest), roundStep(highest)
	if low > lowest*(1+1e-9) {
		low = roundStep(low / 2.5) // the one before: they are 2 or 2.5 apart
	}
	if high <= low {
		high = roundStep(low * 1.5)
	}
	return between(low, high, most)
}

// between is a logarithmic scale with exactly these ends.
func between(low, high float64, most int) (scale, []float64) {
	var ticks []float64
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		ticks = ticks[:0]
		for power := math.Floor(math.Log10(low)); math.Pow(10, power) <= high; power++ {
			for _, m := range steps {
				if v := m * math.Pow(10, power); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
					ticks = append(ticks, v)
				}
			}
		}
		if len(ticks) <= most {
			break
		}
	}
	return scale{low: low, high: high, log: true}, thinned(ticks, most)
}

// thinned leaves out as many ticks between others as are above the most.
func thinned(ticks []float64, most int) (kept []float64) {
	each := (len(ticks) + most - 1) / most
	for i := 0; i < len(ticks); i += each {
		kept = append(kept, ticks[i])
	}
	return kept
}

// percent is a part of an axis as SVG wants it.
func percent(part float64) string { return fmt.Sprintf("%.3f%%", 100*part) }

// pixels is a length as SVG wants it.
func pixels(v float64) string { return fmt.Sprintf("%.1f", v) }

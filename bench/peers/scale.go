package main

import (
	"math"
	"slices"
)

// scale maps values to pixels: low to from, high to to. It is logarithmic if the values differ
// by more than linearUpTo, and else linear from zero.
type scale struct {
	low, high float64
	from, to  float64
	log       bool
}

const linearUpTo = 20

// newScale fits a scale to the values. Those of zero or less have no place on a logarithmic one,
// and are left out of the question.
func newScale(values []float64, from, to float64) scale {
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v <= 0 })
	if len(values) == 0 {
		return scale{0, 1, from, to, false}
	}
	low, high := slices.Min(values), slices.Max(values)
	if high <= linearUpTo*low {
		return scale{0, high, from, to, false}
	}
	return scale{floor(low), high, from, to, true}
}

// floor is the greatest of 1, 2 and 5 times a power of ten that is not above v.
func floor(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{5, 2} {
		if times*power <= v {
			return times * power
		}
	}
	return power
}

// at is the pixel of a value. Values outside are put at the edge.
func (s scale) at(v float64) float64 {
	v = min(max(v, s.low), s.high)
	part := ratio(v-s.low, s.high-s.low)
	if s.log {
		part = ratio(math.Log(v/s.low), math.Log(s.high/s.low))
	}
	return s.from + part*(s.to-s.from)
}

// ticks are round values on the scale, few enough to be labelled.
func (s scale) ticks() []float64 {
	var all []float64
	if !s.log {
		step := floor(s.high / 3)
		for i := 0.0; i*step <= s.high*(1+1e-9); i++ {
			all = append(all, i*step)
		}
		return all
	}
	times := []float64{1}
	if s.high < 200*s.low {
		times = []float64{1, 2, 5}
	}
	for power := math.Pow(10, math.Floor(math.Log10(s.low))); power <= s.high; power *= 10 {
		for _, t := range times {
			if v := t * power; v >= s.low*(1-1e-9) && v <= s.high*(1+1e-9) {
				all = append(all, v)
			}
		}
	}
	return all
}

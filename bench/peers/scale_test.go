package main

import (
	"math"
	"slices"
	"testing"
)

// A scale begins at zero if the values are of one size; if they are not, it is logarithmic,
// and equal factors are equal distances.
func TestScale_FitsTheValues(t *testing.T) {
	linear := newScale([]float64{2, 10, 8}, 0, 100)
	if linear.log || linear.at(0) != 0 || linear.at(5) != 50 || linear.at(10) != 100 ||
		linear.at(11) != 100 {
		t.Errorf("%+v", linear)
	}
	log := newScale([]float64{1, 0, 10_000}, 400, 0)
	if !log.log || log.at(1) != 400 || log.at(100) != 200 || log.at(10_000) != 0 ||
		log.at(0) != 400 {
		t.Errorf("%+v: %v %v %v %v", log, log.at(1), log.at(100), log.at(10_000), log.at(0))
	}
	if none := newScale(nil, 0, 100); math.IsNaN(none.at(1)) || len(none.ticks()) == 0 {
		t.Errorf("a scale without values: %+v", none)
	}
}

// Ticks are round, on the scale, and few.
func TestScale_Ticks(t *testing.T) {
	for _, c := range []struct {
		values, want []float64
	}{
		{[]float64{40, 69_900}, []float64{100, 1_000, 10_000}},
		{[]float64{30, 90}, []float64{0, 20, 40, 60, 80}},
		{[]float64{3.7, 80}, []float64{2, 5, 10, 20, 50}},
	} {
		got := newScale(c.values, 0, 1).ticks()
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("ticks for %v: %v, want %v", c.values, got, c.want)
		}
	}
}

package main

import (
	"testing"
	"time"
)

func TestStats_Median(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{100, 1, 3}, 3},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	values := []float64{3, 1, 2}
	median(values)
	if values[0] != 3 {
		t.Error("median changed the order of its argument")
	}
}

func TestStats_PercentileIsTheNearestRank(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 99, 0},
		{[]time.Duration{5}, 50, 5},
		{[]time.Duration{5}, 99, 5},
		{[]time.Duration{5, 6}, 50, 5},
		{[]time.Duration{5, 6}, 51, 6},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile(%d samples, %d) = %d, want %d", len(c.sorted), c.p, got, c.want)
		}
	}
}

func TestStats_SummaryOfRounds(t *testing.T) {
	rounds := []round{
		{Locks: 100, Window: time.Second, CPU: time.Millisecond, P50: 1000, P99: 9000, Max: 10_000},
		{
			Locks: 900, Window: time.Second, CPU: 9 * time.Millisecond, P50: 3000, P99: 4000,
			Max: 5000, Errors: 2, AnError: "no",
		},
		{
			Locks: 600, Window: 2 * time.Second, CPU: 18 * time.Millisecond, P50: 2000, P99: 5000,
			Max: 7000, Errors: 1,
		},
	}
	s := summarize(contestant{label: "x", where: "y"}, rounds, 0)
	if s.PerSecond != 300 || s.Lowest != 100 || s.Highest != 900 {
		t.Errorf("locks/s: %v, %v to %v; want 300, 100 to 900", s.PerSecond, s.Lowest, s.Highest)
	}
	if s.P50 != 2 || s.P99 != 5 || s.Max != 10 || s.CPUPerLock != 10 {
		t.Errorf("p50 %v, p99 %v, max %v, CPU %v; want 2, 5, 10, 10", s.P50, s.P99, s.Max,
			s.CPUPerLock)
	}
	if s.Errors != 3 || s.AnError != "no" {
		t.Errorf("%d errors, %q; want 3, no", s.Errors, s.AnError)
	}
}

func TestStats_RatioIsOfMedians(t *testing.T) {
	lines := []summary{
		{Contender: "a", PerSecond: 50},
		{Contender: "b", PerSecond: 100},
		{Contender: "c"},
	}
	if got := compare(lines, "b"); got != "b" || lines[0].Ratio != 0.5 || lines[1].Ratio != 1 ||
		lines[2].Ratio != 0 {
		t.Errorf("against b: %s, %+v", got, lines)
	}
	if got := compare(lines, "gone"); got != "a" || lines[1].Ratio != 2 {
		t.Errorf("against the first: %s, %+v", got, lines)
	}
	if got := compare(lines, "c"); got != "c" || lines[0].Ratio != 0 {
		t.Errorf("a baseline without a lock has no ratios: %s, %+v", got, lines)
	}
	if compare(nil, "a") != "" {
		t.Error("no lines have no baseline")
	}
}

func TestMeasure_ACallCountsWithItsShareOfTheWindow(t *testing.T) {
	at := func(ms int) time.Duration { return time.Duration(1000+ms) * time.Millisecond }
	for _, c := range []struct {
		from, to int
		want     float64
	}{
		{-20, -10, 0},
		{-10, 0, 0},
		{-10, 10, 0.5},
		{0, 10, 1},
		{95, 105, 0.5},
		{100, 110, 0},
		{-100, 300, 0.25},
	} {
		one := call{at(c.from), time.Duration(c.to-c.from) * time.Millisecond}
		if got := one.share(at(0), at(100)); got != c.want {
			t.Errorf("a call from %d to %d ms: %v of it lies between 0 and 100, want %v", c.from,
				c.to, got, c.want)
		}
	}
	callers := []caller{{scenario: scenario{keys: 10}, errors: 1, calls: []call{
		{at(-10), 20 * time.Millisecond},
		{at(10), 80 * time.Millisecond},
		{at(90), 40 * time.Millisecond},
	}}}
	r := total(callers, at(0), at(100))
	if r.Locks != 5+10+2.5 || r.P50 != 20*time.Millisecond || r.P99 != 80*time.Millisecond ||
		r.Errors != 1 {
		t.Errorf("three calls, two of them over the edges: %+v", r)
	}
}

func TestKeys_AreDistinctAndOfOneLength(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		source := newKeys("00")
		for range 50 {
			for _, key := range source.next(100) {
				if seen[key] || len(key) != len(keyPrefix("00"))+16 {
					t.Fatalf("key %q: seen before or of another length", key)
				}
				seen[key] = true
			}
		}
	}
}

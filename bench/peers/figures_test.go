package main

import (
	"testing"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// Three digits count, and thousands have commas.
func TestFigures_AreShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 69_876.3: "69,900", 1_234_567: "1,230,000", 999.6: "1,000", 99.96: "100",
		123.4: "123", 12.34: "12.3", 1.5: "1.5", 0.03456: "0.0346", 7: "7",
	} {
		if got := figures.SignificantThousands(v); got != want {
			t.Errorf("figures.SignificantThousands(%v) = %q, want %q", v, got, want)
		}
	}
	for micros, want := range map[float64]string{
		0: "-", 184.2: "184 us", 1711: "1.71 ms",
		2_500_000: "2.5 s",
	} {
		if got := clock(micros); got != want {
			t.Errorf("clock(%v) = %q, want %q", micros, got, want)
		}
	}
	for v, want := range map[float64]string{0.6449: "0.64", 6.6: "6.60", 24.93: "24.9"} {
		if got := times(v); got != want {
			t.Errorf("times(%v) = %q, want %q", v, got, want)
		}
	}
	if got := figures.Thousands(-1); got != "-1" {
		t.Errorf("figures.Thousands(-1) = %q", got)
	}
	if got := figures.Thousands(-1000); got != "-1,000" {
		t.Errorf("figures.Thousands(-1000) = %q", got)
	}
}

package main

import (
	"strconv"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// times writes a ratio, with a digit less than a figure.
func times(v float64) string {
	digits := 2
	if v >= 10 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// clock writes microseconds as the time that they are.
func clock(micros float64) string {
	switch {
	case micros == 0:
		return "-"
	case micros < 1000:
		return figures.SignificantThousands(micros) + " us"
	case micros < 1e6:
		return figures.SignificantThousands(micros/1000) + " ms"
	}
	return figures.SignificantThousands(micros/1e6) + " s"
}

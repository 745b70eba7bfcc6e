package main

import (
	"math"
	"strconv"
	"strings"
)

// figure writes a number with three digits that count, and with commas between thousands: more than
// that a shared machine does not tell.
func figure(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits <= 0 {
		power := math.Pow(10, float64(-digits))
		return commas(int(math.Round(math.Round(v/power) * power)))
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// times writes a ratio, with a digit less than a figure.
func times(v float64) string {
	digits := 2
	if v >= 10 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// commas writes a whole number with commas between thousands.
func commas(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// clock writes microseconds as the time that they are.
func clock(micros float64) string {
	switch {
	case micros == 0:
		return "-"
	case micros < 1000:
		return figure(micros) + " us"
	case micros < 1e6:
		return figure(micros/1000) + " ms"
	}
	return figure(micros/1e6) + " s"
}

// Package figures writes numbers for people.
package figures

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Thousands writes a whole number with commas between thousands.
func Thousands[T ~int | ~uint64](n T) string { return grouped(fmt.Sprint(n)) }

// Plural writes a count of something: 1 node, 2,000 nodes.
func Plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return Thousands(n) + " " + word
}

// Nodes writes how many nodes there are, and in how many groups: 9 nodes in 3 groups.
func Nodes(n, groups int) string {
	text := Plural(n, "node")
	if groups > 1 {
		text += " in " + Plural(groups, "group")
	}
	return text
}

// Callers writes who calls: 48 callers and 16 cold callers.
func Callers(n, cold int) string {
	text := Plural(n, "caller")
	if cold > 0 {
		text += " and " + Plural(cold, "cold caller")
	}
	return text
}

// Loop writes when calls start, by how many are due a second; 0: each caller calls again when it is
// done.
func Loop(rate float64) string {
	if rate == 0 {
		return "each calls again at once"
	}
	return fmt.Sprintf("open loop at %g calls/s", rate)
}

// Known returns a number, or 0 if it is not known.
func Known(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// Digits is how many digits of a measured number count: a shared machine is no more precise.
const Digits = 3

// Significant writes a number rounded to Digits that count, without zeros that say nothing.
func Significant(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	power := math.Pow(10, Digits-1-math.Floor(math.Log10(math.Abs(v))))
	rounded := math.Round(v*power) / power
	if power < 1 { // so that the result is a whole number
		rounded = math.Round(rounded)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// SignificantThousands is Significant with commas between thousands.
func SignificantThousands(v float64) string { return grouped(Significant(v)) }

// grouped adds commas to the whole part of a number.
func grouped(text string) string {
	whole, fraction, found := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "." + fraction
	}
	return whole
}

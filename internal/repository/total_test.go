package repository

import (
	"maps"
	"slices"
	"testing"
)

// The limits of TestSize_Total, in lines. They follow the sums, so that these only fall.
const (
	maxLinked  = 22_603
	maxTrusted = 14_137
	// maxSlack is how many lines a sum may be below its limit.
	maxSlack = 50
)

// The goal: a person can read what a program links that only locks, and first of all what of it has
// to be trusted. A package counts whole: its files for all platforms, with comments and empty
// lines, but without tests.
func TestSize_Total(t *testing.T) {
	lines := make(map[string]int)
	for _, f := range sources(t, production) {
		lines[f.dir] += f.line(f.syntax.FileEnd)
	}
	var linked, ofThemTrusted []string
	for _, importPath := range linkedByLocks(t) {
		dir, ours := inThisModule(importPath)
		if ours {
			linked = append(linked, dir)
		}
		if ours && isTrusted(dir) {
			ofThemTrusted = append(ofThemTrusted, dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(allowedImports)) {
		if isTrusted(dir) && !slices.Contains(linked, dir) {
			t.Errorf("allowedImports marks %s as trusted, and a program that only locks does not "+
				"link it: delete the mark", dir)
		}
	}
	checkTotal(t, "linked", linked, lines, maxLinked)
	checkTotal(t, "trusted", ofThemTrusted, lines, maxTrusted)
}

// isTrusted reports whether the package in dir has the mark trusted in allowedImports.
func isTrusted(dir string) bool { return slices.Contains(allowedImports[dir], trusted) }

// checkTotal prints the lines of the packages in dirs together, and compares them with their limit.
func checkTotal(t *testing.T, name string, dirs []string, lines map[string]int, limit int) {
	t.Helper()
	sum := 0
	for _, dir := range dirs {
		sum += lines[dir]
	}
	t.Logf("%s: %d lines in %d packages", name, sum, len(dirs))
	switch {
	case sum > limit:
		t.Errorf("%s: %d lines, above the limit of %d: make it smaller, or raise the limit and add "+
			"a line to DESIGN.md that says what users got for it", name, sum, limit)
	case sum < limit-maxSlack:
		t.Errorf("%s: %d lines, far below the limit of %d: lower the limit to %d, so that nobody "+
			"fills the gap again", name, sum, limit, sum)
	}
}

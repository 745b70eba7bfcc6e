package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// Parts that were measured apart become one report, in the order of the scenarios; a scenario that
// was measured again counts once, with the circumstances of its last time.
func TestReport_Merge(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, r *report) string {
		file := filepath.Join(dir, name)
		if err := r.write(file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	first := write("first.json", &report{
		Runs:   []circumstances{{Scenarios: []string{"far", "held"}, Go: "old"}},
		Tables: []table{{Scenario: "far", About: "old"}, {Scenario: "held", About: "old"}},
		Growth: []curve{{Scenario: "growth-keys"}}, Held: &heldCurve{About: "old"},
	})
	second := write("second.json", &report{
		Runs:   []circumstances{{Scenarios: []string{"one", "far"}, Go: "new"}},
		Tables: []table{{Scenario: "one", About: "new"}, {Scenario: "far", About: "new"}},
		Growth: []curve{{Scenario: "growth-callers"}}, Held: &heldCurve{About: "new"},
	})
	r, err := readReports([]string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for _, x := range r.Tables {
		tables = append(tables, x.Scenario+" "+x.About)
	}
	if want := []string{"one new", "far new", "held old"}; !slices.Equal(tables, want) {
		t.Errorf("tables %v, want %v", tables, want)
	}
	if len(r.Runs) != 2 || r.Runs[0].Go != "new" ||
		!slices.Equal(r.Runs[1].Scenarios, []string{"held"}) {
		t.Errorf("runs %+v", r.Runs)
	}
	if len(r.Growth) != 2 || r.Growth[0].Scenario != "growth-callers" || r.Held.About != "new" {
		t.Errorf("growth %+v, held %+v", r.Growth, r.Held)
	}
	if _, err := readReports([]string{filepath.Join(dir, "none.json")}); err == nil {
		t.Error("a file that is not there was read")
	}
}

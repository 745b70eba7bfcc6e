package repository

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

var updateDocs = flag.Bool("docs.update", false,
	"write the table of metrics into the documentation, instead of comparing it")

// metricsTable finds the table of metrics. Its groups are the marks before and behind it.
var metricsTable = regexp.MustCompile(
	`(?s)(<!-- metrics: [^\n]*-->\n\n).*?(\n<!-- end of metrics -->)`)

// The goal: the documentation has a table of the metrics in the collector's own words, and names
// each value that a label can have.
func TestDocs_MetricsAreTheCollectors(t *testing.T) {
	const manual = "docs/operations.md"
	var table strings.Builder
	table.WriteString("| metric | what it counts |\n|---|---|\n")
	values := make(map[string]bool)
	for _, f := range gatherMetrics(t) {
		fmt.Fprintf(&table, "| `%s%s` | %s |\n", f.GetName(), labelNames(f), f.GetHelp())
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() != "node" {
					values[l.GetValue()] = true
				}
			}
		}
	}
	content, err := os.ReadFile(manual)
	require.NoError(t, err)
	text := string(content)
	found := metricsTable.FindStringSubmatchIndex(text)
	require.NotNil(t, found, "%s has no place for the table", manual)
	before, after := text[:found[3]], text[found[4]:]
	want := before + table.String() + after
	if *updateDocs {
		require.NoError(t, os.WriteFile(manual, []byte(want), 0o644))
	} else {
		require.Equal(t, want, text, "if that is meant: make docs")
	}
	for value := range values {
		require.Contains(t, before+after, "`"+value+"`", "%s does not explain it", manual)
	}
}

// labelNames returns the names of a metric's labels in braces; "" if it has none.
func labelNames(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	if len(names) == 0 {
		return ""
	}
	return "{" + strings.Join(names, ",") + "}"
}

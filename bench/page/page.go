// Package page shows a report of package bench to people: one HTML page that needs nothing else,
// neither a network nor a script.
package page

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/lockpipe/lockpipe/bench"
)

//go:embed page.html
var source string

var page = template.Must(template.New("page").Parse(source))

// content is what the template shows.
type content struct {
	Title   string
	Summary string
	Notes   []string
	Verdict verdict
	Tiles   []tile
	Charts  []chart
	Nodes   []chart
	Tables  []table
	Version string
	Started string
}

// tile is one number that a reader looks for first.
type tile struct{ Name, Value, Unit string }

// table is numbers as text, under a heading each. The first cell of each row says what the row is
// about.
type table struct {
	Title string
	Wide  bool
	Head  []string
	Rows  [][]string
}

// Write writes the page about a report, and about the error that bench.Run returned with it, if
// any. Notes are lines below the summary, such as that of Peers. The report's NodesNote is the
// first of them. Texts in the report and notes stay texts. An error is w's.
func Write(w io.Writer, r *bench.Report, runErr error, notes ...string) error {
	if r.NodesNote != "" {
		notes = append([]string{r.NodesNote}, notes...)
	}
	c := content{
		Title:   "loadgen: " + inWords(r),
		Summary: summary(r), Notes: notes,
		Verdict: judge(r, runErr),
		Tiles:   tiles(r),
		Charts:  charts(r),
		Nodes:   nodeCharts(r),
		Tables: []table{
			moveTable(r), nodeTable(r), percentiles(r), rest(r), faultTable(r), configuration(r),
		},
		Version: r.Version,
	}
	if !r.Started.IsZero() {
		c.Started = r.Started.Format("2006-01-02 15:04:05 MST")
	}
	return page.Execute(w, c)
}

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// row has the result of one way.
type row struct {
	name string
	measured
}

// table has the results of one case.
type table []row

// section is a table as text, for a terminal or a page. The first cell of each row says what the
// row is about.
type section struct {
	Title string
	Head  []string
	Rows  [][]string
	Notes []string
}

// section returns the table as text. The stock of all ways has been checked.
func (t table) section(title string, d time.Duration) section {
	s := section{Title: title, Head: []string{
		"", "hot orders/s", "p50 ms", "p99 ms", "cold orders/s", "p50 ms", "p99 ms",
		"connections p50", "most", "late", "dropped", "failed", "stock",
	}}
	for _, r := range t {
		s.Rows = append(s.Rows, []string{
			r.name, fmt.Sprintf("%.0f", r.hot.rate(d)), r.hot.ms(50), r.hot.ms(99),
			fmt.Sprintf("%.0f", r.cold.rate(d)), r.cold.ms(50), r.cold.ms(99),
			strconv.Itoa(percentile(r.connections, 50)),
			strconv.Itoa(percentile(r.connections, 100)),
			strconv.Itoa(r.hot.late + r.cold.late), strconv.Itoa(r.hot.dropped + r.cold.dropped),
			strconv.Itoa(r.failed), "exact",
		})
		if r.err != nil {
			s.Notes = append(s.Notes,
				fmt.Sprintf("%s: the first order that failed: %v", r.name, r.err))
		}
	}
	return s
}

func (s section) print() {
	fmt.Printf("\n%s\n", s.Title)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	for _, cells := range append([][]string{s.Head}, s.Rows...) {
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	_ = w.Flush() // as for every other line
	for _, note := range s.Notes {
		fmt.Println(note)
	}
}

// ms returns a percentile as text.
func (c *class) ms(percent int) string {
	took, placed := c.percentile(percent)
	switch {
	case placed:
		return fmt.Sprintf("%.1f", float64(took)/1e6)
	case c.dropped > 0:
		return "dropped"
	default:
		return "-"
	}
}

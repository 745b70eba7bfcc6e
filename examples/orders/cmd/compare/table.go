package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// row has the result of one shop.
type row struct {
	name string
	measured
}

// table begins with the shop with which the others are compared.
type table []row

func (t table) print(database string, d time.Duration) {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	fmt.Fprintln(w, database+"\thot orders/s\tp50\tp99\tcold orders/s\tp50\tp99\tconnections "+
		"p50\tmost\tlate\tdropped\tfailed\tstock\t")
	for _, r := range t {
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%.0f\t%s\t%s\t%d\t%d\t%d\t%d\t%d\texact\t\n", r.name,
			r.hot.rate(d), r.hot.ms(50), r.hot.ms(99),
			r.cold.rate(d), r.cold.ms(50), r.cold.ms(99),
			percentile(r.connections, 50), percentile(r.connections, 100),
			r.hot.late+r.cold.late, r.hot.dropped+r.cold.dropped, r.failed)
	}
	_ = w.Flush() // as for every other line
	for _, r := range t {
		if r.err != nil {
			fmt.Printf("%s: the first order that failed: %v\n", r.name, r.err)
		}
	}
}

// ms returns a percentile as text.
func (c *class) ms(percent int) string {
	took, placed := c.percentile(percent)
	switch {
	case placed:
		return fmt.Sprintf("%.1f ms", float64(took)/1e6)
	case c.dropped > 0:
		return "dropped"
	default:
		return "-"
	}
}

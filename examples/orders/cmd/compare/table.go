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
		"p50\tmost\tfailed\tstock\t")
	for _, r := range t {
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%.0f\t%s\t%s\t%d\t%d\t%d\texact\t\n", r.name,
			rate(r.hot, d), ms(percentile(r.hot, 50)), ms(percentile(r.hot, 99)),
			rate(r.cold, d), ms(percentile(r.cold, 50)), ms(percentile(r.cold, 99)),
			percentile(r.connections, 50),
			percentile(r.connections, 100), r.failed)
	}
	_ = w.Flush() // as for every other line
	base := t[0]
	for _, r := range t[1:] {
		if len(base.hot) == 0 || len(base.cold) == 0 {
			break
		}
		fmt.Printf("%s: hot %.2f and cold %.0f times as many as with %s, cold p99 %.3f of it\n",
			r.name, rate(r.hot, d)/rate(base.hot, d),
			rate(r.cold, d)/rate(base.cold, d), base.name,
			float64(percentile(r.cold, 99))/float64(percentile(base.cold, 99)))
	}
	for _, r := range t {
		if r.err != nil {
			fmt.Printf("%s: the first order that failed: %v\n", r.name, r.err)
		}
	}
}

func rate(took []time.Duration, d time.Duration) float64 { return float64(len(took)) / d.Seconds() }

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

// percentile returns a percentile of a sorted list, zero if the list is empty.
func percentile[T any](sorted []T, percent int) (value T) {
	if len(sorted) == 0 {
		return value
	}
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

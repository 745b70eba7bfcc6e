package main

import (
	"slices"
	"time"
)

// measured is the result of a load.
type measured struct {
	hot, cold   class // orders with the hot product, and the others
	placed      int   // also before and after the time that is measured
	connections []int // in use, at several times; sorted
	failed      int
	err         error // the first of the failures
}

// class has the orders of one kind.
type class struct {
	took    []time.Duration // of placed orders, each from when it was due; sorted
	ended   int             // placed orders whose end was within the time that is measured
	late    int             // placed, but longer than lateAfter after they were due
	dropped int             // due, but the shop never saw them
}

// lateAfter is when a customer no longer waits gladly.
const lateAfter = time.Second

// window is the time that is measured: after the warm-up and before the end.
type window struct{ from, until time.Time }

func (w window) has(t time.Time) bool { return !t.Before(w.from) && t.Before(w.until) }

// class returns the class of an order.
func (m *measured) class(hot bool) *class {
	if hot {
		return &m.hot
	}
	return &m.cold
}

// record adds an order that has ended.
func (m *measured) record(hot bool, err error, due, end time.Time, w window) {
	if err != nil {
		m.failed++
		if m.err == nil {
			m.err = err
		}
		return
	}
	m.placed++
	c := m.class(hot)
	if w.has(end) {
		c.ended++
	}
	if w.has(due) {
		c.took = append(c.took, end.Sub(due))
		if end.Sub(due) > lateAfter {
			c.late++
		}
	}
}

// drop adds an order that was due and that the shop never saw.
func (m *measured) drop(hot bool, due time.Time, w window) {
	if w.has(due) {
		m.class(hot).dropped++
	}
}

// add adds the result of another caller.
func (m *measured) add(o *measured) {
	for _, hot := range []bool{true, false} {
		to, from := m.class(hot), o.class(hot)
		to.took = append(to.took, from.took...)
		to.ended += from.ended
		to.late += from.late
		to.dropped += from.dropped
	}
	m.placed += o.placed
	m.failed += o.failed
	if m.err == nil {
		m.err = o.err
	}
}

func (m *measured) sort() {
	slices.Sort(m.hot.took)
	slices.Sort(m.cold.took)
	slices.Sort(m.connections)
}

// rate returns placed orders per second.
func (c *class) rate(d time.Duration) float64 { return float64(c.ended) / d.Seconds() }

// percentile returns a percentile of the time that an order took, of all that were due. A dropped
// order took longer than any other; placed is false if the percentile is one of these.
func (c *class) percentile(percent int) (took time.Duration, placed bool) {
	i := min((len(c.took)+c.dropped)*percent/100, len(c.took)+c.dropped-1)
	if i < 0 || i >= len(c.took) {
		return 0, false
	}
	return c.took[i], true
}

// percentile returns a percentile of a sorted list, zero if the list is empty.
func percentile[T any](sorted []T, percent int) (value T) {
	if len(sorted) == 0 {
		return value
	}
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

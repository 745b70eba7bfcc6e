package page

import (
	"fmt"
	"strings"
)

// chart is one figure. Across, everything stands in percent of its width, and up and down in pixels, so that one drawing fits every
// screen and its text keeps its size.
type chart struct {
	ID, Title, Desc string
	Wide            bool
	Height          string // of the part within the axes
	Below           string // where the labels of the x axis stand
	Whole           string // with these labels and the lanes
	YLabel, XLabel  string
	X, Y            []tick
	Legend          []key
	Bands           []band
	Lines           []line
	Bars            []bar
	Notes           []note
	Tips            []band
	Lanes           []lane
	LaneKeys        []string
	Table           table
	Empty           string // said instead of a drawing
}

type tick struct{ Pos, Text, Anchor string }

// key is an entry of the legend.
type key struct{ Class, Name string }

// line is a path whose x is from 0 to 1000.
type line struct{ Class, Path string }

// band is a part of the time. One without width is a moment.
type band struct{ X, Width, Tip string }

type bar struct{ X, Width, Y, Height, Tip string }

// note is a line across the chart with a word beside it.
type note struct{ X, Y, Anchor, Text string }

// lane is what was done to one node over time.
type lane struct {
	Y, Middle, Height string
	Name              string
	Spans             []mark
}

// mark is a fault in a lane.
type mark struct {
	band
	Letter string
	Class  string
}

const (
	plotHeight = 180.0
	axisHeight = 36.0 // of the labels below
	maxXTicks  = 5    // that do not touch each other on a phone
	maxYTicks  = 4
)

// frame is a chart with its axes.
func frame(id, title string, height float64) chart {
	return chart{ID: id, Title: title, Height: pixels(height), Below: pixels(height + 16), Whole: pixels(height + axisHeight)}
}

// yAxis labels the values.
func (c *chart) yAxis(s scale, ticks []float64, text func(float64) string) {
	for _, v := range ticks {
		c.Y = append(c.Y, tick{Pos: pixels(plotHeight * (1 - s.at(v))), Text: text(v)})
	}
}

// xAxis labels what is across. The outer labels stay within the chart.
func (c *chart) xAxis(s scale, ticks []float64, text func(float64) string) {
	for _, v := range ticks {
		part := s.at(v)
		anchor := "middle"
		switch {
		case part < 0.02:
			anchor = "start"
		case part > 0.96:
			anchor = "end"
		}
		c.X = append(c.X, tick{Pos: percent(part), Text: text(v), Anchor: anchor})
	}
}

// point is a value at a part of the width; one that is not there interrupts the line.
type point struct {
	x, y  float64
	there bool
}

// path joins points. One that stands alone becomes a dot.
func path(points []point, y scale) string {
	var b strings.Builder
	drawn := false
	for i, p := range points {
		if !p.there {
			drawn = false
			continue
		}
		command := "L"
		if !drawn {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", command, 1000*p.x, plotHeight*(1-y.at(p.y)))
		if !drawn && (i+1 == len(points) || !points[i+1].there) {
			b.WriteString("h0.1")
		}
		drawn = true
	}
	return b.String()
}

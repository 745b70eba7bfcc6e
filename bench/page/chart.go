package page

import (
	"fmt"
	"strings"
)

// chart is one figure. Across, everything is in percent of its width, and up and down in
// pixels, so that one drawing fits every screen and its text keeps its size.
type chart struct {
	ID, Title, Desc string
	Wide            bool
	Height          string // of the part within the axes
	Tall            string // with the strip below it
	Below           string // where the labels of the x axis are
	Whole           string // with these labels and the lanes
	YLabel, XLabel  string
	X, Y            []tick
	Legend          []key
	Said            []string // in place of a legend
	Bands           []band
	Lines           []line
	Bars            []bar
	Notes           []note
	Tips            []band
	Strip           *strip
	Lanes           []lane
	LaneKeys        []string
	Table           table
	Empty           string // said instead of a drawing

	height float64 // Height
}

// strip is bars below the chart, with an axis of their own from 0 to what the label says.
type strip struct {
	Top, Y, Height, Label string
	Bars                  []bar
}

type tick struct{ Pos, Text, Anchor string }

// key is an entry of the legend.
type key struct{ Class, Name string }

// line is a path whose x is from 0 to 1000, and a path of dots: the points that have no neighbour.
type line struct{ Class, Path, Dots string }

// band is a part of the time. One without width is a moment.
type band struct{ X, Width, Tip string }

type bar struct{ X, Width, Y, Height, Tip string }

// note is a line from Y, above the chart, to its bottom, with a word next to it at Text.
type note struct{ X, Y, Text, Anchor, Word string }

// lane is what was done to one node over time.
type lane struct {
	Y, Middle, Height string
	Name              string
	Spans             []mark
}

// mark is a fault in a lane, with its letter, and with a word instead if that has room.
type mark struct {
	band
	Letter, Word string
	Class        string
}

const (
	plotHeight  = 180.0
	axisHeight  = 36.0 // of the labels below
	maxXTicks   = 5    // that do not touch each other on a phone
	maxYTicks   = 4
	maxLogTicks = 6
)

// frame is a chart with its axes.
func frame(id, title string, height float64) chart {
	return chart{
		ID: id, Title: title, Height: pixels(height), Tall: pixels(height),
		Below: pixels(height + 16), Whole: pixels(height + axisHeight), height: height,
	}
}

// yAxis labels the values.
func (c *chart) yAxis(s scale, ticks []float64, text func(float64) string) {
	for _, v := range ticks {
		c.Y = append(c.Y, tick{Pos: pixels(c.height * (1 - s.at(v))), Text: text(v)})
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

// join is a line through points.
func join(class string, points []point, y scale, height float64) line {
	var through, dots strings.Builder
	for i, p := range points {
		if !p.there {
			continue
		}
		before, after := i > 0 && points[i-1].there, i+1 < len(points) && points[i+1].there
		at := fmt.Sprintf("%.1f %.1f", 1000*p.x, height*(1-y.at(p.y)))
		switch {
		case before:
			through.WriteString("L" + at)
		case after:
			through.WriteString("M" + at)
		default:
			dots.WriteString("M" + at + "h0.1") // round ends make it a dot
		}
	}
	return line{class, through.String(), dots.String()}
}

package main

import "math"

// bars is a picture of small bar charts, each with a scale of its own from zero: what is compared
// are the bars of one chart.
type bars struct {
	title, note string
	charts      []barChart
}

type barChart struct {
	title string
	bars  []bar
}

type bar struct {
	label, class string
	value        float64
	text         string // at its end
}

const (
	barLabelWidth = 180
	barTextWidth  = 115
	barStep       = 22
)

func (b bars) draw() string {
	d, y := newDrawing(b.title, b.note)
	for _, c := range b.charts {
		y = c.draw(d, y+14)
	}
	d.height = int(y) + margin
	return d.String()
}

// draw draws the chart below y, and returns where it ends.
func (c barChart) draw(d *drawing, y float64) float64 {
	y = d.paragraph(y, "bold "+ink, boldLine, c.title) + 8
	longest := 0.0
	for _, b := range c.bars {
		longest = math.Max(longest, b.value)
	}
	s := scale{high: longest, to: pictureWidth - barLabelWidth - barTextWidth - 24}
	for i, b := range c.bars {
		top := y + float64(i*barStep)
		d.text(barLabelWidth, top+14, ink, toTheLeft, b.label)
		length := math.Max(s.at(b.value), 1)
		d.bar(barLabelWidth+8, top+3, length, barStep-7, b.class)
		d.text(barLabelWidth+14+length, top+14, ink, toTheRight, b.text)
	}
	return y + float64(len(c.bars)*barStep)
}

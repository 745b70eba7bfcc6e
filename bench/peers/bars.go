package main

import "math"

// bars is a picture of small bar charts, two in a row, each with a scale of its own from zero: what
// is compared are the bars of one chart.
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
	barChartWidth = 460
	barLabelWidth = 175
	barTextWidth  = 105
	barStep       = 22
)

func (b bars) draw() string {
	most := 0
	for _, c := range b.charts {
		most = max(most, len(c.bars))
	}
	height := 50 + most*barStep
	rows := (len(b.charts) + 1) / 2
	d := newDrawing(2*barChartWidth, 60+rows*height, b.title)
	d.text(16, 26, "bold "+ink, toTheRight, b.title)
	d.text(16, 46, soft, toTheRight, b.note)
	for i, c := range b.charts {
		c.draw(d, float64(i%2*barChartWidth), float64(60+i/2*height))
	}
	return d.String()
}

func (c barChart) draw(d *drawing, x, y float64) {
	d.text(x+16, y+22, "bold "+ink, toTheRight, c.title)
	longest := 0.0
	for _, b := range c.bars {
		longest = math.Max(longest, b.value)
	}
	s := scale{high: longest, to: barChartWidth - barLabelWidth - barTextWidth - 24}
	for i, b := range c.bars {
		top := y + 32 + float64(i*barStep)
		d.text(x+barLabelWidth, top+14, ink, toTheLeft, b.label)
		length := math.Max(s.at(b.value), 1)
		d.bar(x+barLabelWidth+8, top+3, length, barStep-7, b.class)
		d.text(x+barLabelWidth+14+length, top+14, ink, toTheRight, b.text)
	}
}

package main

import "github.com/lockpipe/lockpipe/bench/figures"

// lines is a picture of line charts side by side. Their points stand at equal distances, since the
// sizes that they are measured at do, or grow by equal factors.
type lines struct {
	title, note string
	charts      []lineChart
}

type lineChart struct {
	title, axis string
	sizes       []string // below the points
	series      []series
}

// series is one line: a value for each size, with the lowest and highest of its rounds.
type series struct {
	name, class string
	values      []spread
}

type spread struct{ low, value, high float64 }

const (
	lineChartWidth  = 460
	lineChartHeight = 320
	lineLeft        = 68
	lineRight       = 24
	lineTop         = 110
	lineBottom      = 270
)

func (l lines) draw() string {
	d := newDrawing(len(l.charts)*lineChartWidth, lineChartHeight, l.title)
	d.text(16, 26, "bold "+ink, toTheRight, l.title)
	d.text(16, 46, soft, toTheRight, l.note)
	for i, c := range l.charts {
		c.draw(d, float64(i*lineChartWidth))
	}
	return d.String()
}

func (c lineChart) draw(d *drawing, x float64) {
	s := newScale(c.all(), lineBottom, lineTop)
	left, right := x+lineLeft, x+lineChartWidth-lineRight
	title := c.title
	if s.log {
		title += " (logarithmic)"
	}
	d.text(x+16, lineTop-34, ink, toTheRight, title)
	for _, t := range s.ticks() {
		d.line(left, s.at(t), right, s.at(t), grid)
		d.text(left-6, s.at(t)+4, soft, toTheLeft, figures.SignificantThousands(t))
	}
	// Half a step at both sides leaves room for the labels.
	step := (right - left) / float64(max(len(c.sizes), 1))
	at := func(i int) float64 { return left + (float64(i)+0.5)*step }
	for i, size := range c.sizes {
		d.text(at(i), lineBottom+18, soft, around, size)
	}
	d.text((left+right)/2, lineBottom+38, soft, around, c.axis)
	for n, one := range c.series {
		points := make([]place, len(one.values))
		for i, v := range one.values {
			points[i] = place{at(i), s.at(v.value)}
			d.line(at(i), s.at(v.low), at(i), s.at(v.high), one.class)
		}
		d.curve(points, one.class)
		for i, p := range points {
			d.dot(p.x, p.y, one.class)
			d.text(p.x, s.at(one.values[i].high)-9, ink, around,
				figures.SignificantThousands(one.values[i].value))
		}
		if len(c.series) > 1 {
			d.dot(left+float64(n)*130, lineTop-22, one.class)
			d.text(left+float64(n)*130+8, lineTop-18, ink, toTheRight, one.name)
		}
	}
}

// all is every value of the chart.
func (c lineChart) all() []float64 {
	var all []float64
	for _, s := range c.series {
		for _, v := range s.values {
			all = append(all, v.low, v.value, v.high)
		}
	}
	return all
}

package main

import (
	"strings"

	"github.com/lockpipe/lockpipe/bench/figures"
)

// lines is a picture of line charts, one below the other. Their points are at equal
// distances, since the sizes that they are measured at are too, or grow by equal factors.
type lines struct {
	title, note string
	charts      []lineChart
}

type lineChart struct {
	title, axis string
	sizes       []string // below the points; after a comma and a space comes a second line
	series      []series
}

// series is one line: a value for each size, with the lowest and highest of its rounds.
type series struct {
	name, class string
	values      []spread
}

type spread struct{ low, value, high float64 }

const (
	lineLeft   = 62
	lineRight  = 8
	lineTop    = 58 // below the beginning of a chart
	lineBottom = 218
	lineHeight = 272
)

func (l lines) draw() string {
	d, y := newDrawing(l.title, l.note)
	for _, c := range l.charts {
		c.draw(d, y)
		y += lineHeight
	}
	d.height = int(y) + margin
	return d.String()
}

// draw draws the chart below y.
func (c lineChart) draw(d *drawing, y float64) {
	top, bottom := y+lineTop, y+lineBottom
	s := newScale(c.all(), bottom, top)
	left, right := float64(lineLeft), float64(pictureWidth-lineRight)
	title := c.title
	if s.log {
		title += " (logarithmic)"
	}
	d.text(margin, top-34, ink, toTheRight, title)
	for _, t := range s.ticks() {
		d.line(left, s.at(t), right, s.at(t), grid)
		d.text(left-6, s.at(t)+4, soft, toTheLeft, figures.SignificantThousands(t))
	}
	// Half a step at both sides leaves room for the labels.
	step := (right - left) / float64(max(len(c.sizes), 1))
	at := func(i int) float64 { return left + (float64(i)+0.5)*step }
	for i, size := range c.sizes {
		size, below, _ := strings.Cut(size, ", ")
		d.text(at(i), bottom+18, soft, around, size)
		if below != "" {
			d.text(at(i), bottom+32, soft, around, below)
		}
	}
	d.text((left+right)/2, bottom+48, soft, around, c.axis)
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
			d.dot(left+float64(n)*130, top-22, one.class)
			d.text(left+float64(n)*130+8, top-18, ink, toTheRight, one.name)
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

package main

import "slices"

// dots is a picture of times: a row for each of several loads, a dot for each of its times, on one
// logarithmic scale for all.
type dots struct {
	title, note string
	legend      []string // what the dots of a row are; their classes are those of dotClasses
	groups      []dotGroup
}

type dotGroup struct {
	title string
	rows  []dotRow
}

type dotRow struct {
	label string
	times []float64 // microseconds, in the order of the legend; 0 if there is none
}

// dotClasses are how the dots of a row look, in the order of the legend.
var dotClasses = []string{first, second, third}

const (
	dotsLeft  = 24
	dotsRight = pictureWidth - dotsLeft
	dotStep   = 42 // a line of text, and the dots below it
)

func (p dots) draw() string {
	var all []float64
	for _, g := range p.groups {
		for _, r := range g.rows {
			all = append(all, r.times...)
		}
	}
	d, y := newDrawing(p.title, p.note)
	y += 20
	for i, name := range p.legend {
		d.dot(float64(dotsLeft+i*130), y-4, dotClasses[i])
		d.text(float64(dotsLeft+i*130+10), y, ink, toTheRight, name)
	}
	s := newScale(all, dotsLeft, dotsRight)
	for _, g := range p.groups {
		y = g.draw(d, s, y+14)
	}
	d.height = int(y) + margin
	return d.String()
}

// draw draws the group below y, with an axis, and returns where it ends.
func (g dotGroup) draw(d *drawing, s scale, y float64) float64 {
	y = d.paragraph(y, "bold "+ink, boldLine, g.title)
	bottom := y + float64(len(g.rows)*dotStep) + 4
	for _, t := range s.ticks() {
		for i := range g.rows {
			at := y + float64((i+1)*dotStep) - 8
			d.line(s.at(t), at-6, s.at(t), at+6, grid)
		}
		label := clock(t)
		if t == 0 {
			label = "0"
		}
		d.text(s.at(t), bottom+14, soft, around, label)
	}
	for i, r := range g.rows {
		r.draw(d, s, y+float64(i*dotStep))
	}
	return bottom + 18
}

// draw draws the row below y.
func (r dotRow) draw(d *drawing, s scale, y float64) {
	text := ""
	for _, t := range r.times {
		if text != "" {
			text += " / "
		}
		text += clock(t)
	}
	d.text(margin, y+20, ink, toTheRight, r.label)
	d.text(pictureWidth-margin, y+20, ink, toTheLeft, text)
	y += dotStep - 8
	d.line(dotsLeft, y, dotsRight, y, grid)
	// The last one first: the first is what matters, and may lie on the others.
	for i, t := range slices.Backward(r.times) {
		if t > 0 {
			d.dot(s.at(t), y, dotClasses[i])
		}
	}
}

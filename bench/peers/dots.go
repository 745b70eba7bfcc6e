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
	dotsWidth   = 920
	dotsLeft    = 250
	dotsRight   = 670
	dotStep     = 24
	dotGroupTop = 34
	dotsTop     = 88
)

func (p dots) draw() string {
	height := dotsTop + 40
	var all []float64
	for _, g := range p.groups {
		height += dotGroupTop + len(g.rows)*dotStep
		for _, r := range g.rows {
			all = append(all, r.times...)
		}
	}
	d := newDrawing(dotsWidth, height, p.title)
	d.text(16, 26, "bold "+ink, toTheRight, p.title)
	d.text(16, 46, soft, toTheRight, p.note)
	for i, name := range p.legend {
		d.dot(float64(dotsLeft+i*130), 68, dotClasses[i])
		d.text(float64(dotsLeft+i*130+10), 72, ink, toTheRight, name)
	}
	s := newScale(all, dotsLeft, dotsRight)
	bottom := float64(height - 30)
	for _, t := range s.ticks() {
		d.line(s.at(t), dotsTop, s.at(t), bottom, grid)
		label := clock(t)
		if t == 0 {
			label = "0"
		}
		d.text(s.at(t), bottom+16, soft, around, label)
	}
	y := float64(dotsTop)
	for _, g := range p.groups {
		d.text(16, y+22, "bold "+ink, toTheRight, g.title)
		y += dotGroupTop
		for _, r := range g.rows {
			r.draw(d, s, y+dotStep/2)
			y += dotStep
		}
	}
	return d.String()
}

func (r dotRow) draw(d *drawing, s scale, y float64) {
	d.text(dotsLeft-14, y+4, ink, toTheLeft, r.label)
	d.line(dotsLeft, y, dotsRight, y, grid)
	text := ""
	for _, t := range r.times {
		if text != "" {
			text += " / "
		}
		text += clock(t)
	}
	// The last one first: the first is what matters, and may lie on the others.
	for i, t := range slices.Backward(r.times) {
		if t > 0 {
			d.dot(s.at(t), y, dotClasses[i])
		}
	}
	d.text(dotsRight+16, y+4, ink, toTheRight, text)
}

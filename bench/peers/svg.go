package main

import (
	"fmt"
	"html"
	"strings"
)

// drawing is an SVG picture in the making. It needs nothing from outside: system fonts, and colours
// for a light and a dark background, which the reader's settings choose between.
type drawing struct {
	width, height int
	title         string
	body          strings.Builder
}

// Classes of what is drawn; what they look like is said in style.
const (
	ink    = "ink"    // text
	soft   = "soft"   // lesser text
	grid   = "grid"   // lines behind
	first  = "first"  // the one that the picture is about, or the first of several
	second = "second" // and so on
	third  = "third"
	rest   = "rest" // whom it is compared with
	faint  = "faint"
)

const style = `text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;font-size:13px}
.bg{fill:#ffffff}.ink{fill:#1f2328}.soft{fill:#59636e}.grid{stroke:#d8dee4;stroke-width:1}
.first{fill:#1f6feb;stroke:#1f6feb}.second{fill:#bf5b04;stroke:#bf5b04}.third{fill:#1a7f37;stroke:#1a7f37}
.rest{fill:#8c959f;stroke:#8c959f}.faint{fill:#d0d7de;stroke:#d0d7de}
@media (prefers-color-scheme:dark){
.bg{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#30363d}
.first{fill:#58a6ff;stroke:#58a6ff}.second{fill:#e3912d;stroke:#e3912d}.third{fill:#56d364;stroke:#56d364}
.rest{fill:#7d8590;stroke:#7d8590}.faint{fill:#3d444d;stroke:#3d444d}
}
.bold{font-weight:600;font-size:14px}.bar{stroke:none}.curve{fill:none;stroke-width:2}`

// pictureWidth is that of all pictures: a phone shows them nearly in full size, so that
// their text can be read there.
const pictureWidth = 460

// The lengths of lines that fit, in characters.
const (
	boldLine = 50
	softLine = 66
	lineStep = 18.0
)

// newDrawing begins a picture with its title and note. It returns where these end; the caller sets
// the height.
func newDrawing(title, note string) (d *drawing, y float64) {
	d = &drawing{width: pictureWidth, title: title}
	y = d.paragraph(8, "bold "+ink, boldLine, title)
	return d, d.paragraph(y+2, soft, softLine, note)
}

// paragraph writes a text in lines below y, and returns where it ends.
func (d *drawing) paragraph(y float64, class string, length int, text string) float64 {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > length {
			y += lineStep
			d.text(margin, y, class, toTheRight, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	d.text(margin, y+lineStep, class, toTheRight, line)
	return y + lineStep
}

// margin is left and right of everything.
const margin = 16

// String is the whole picture. The same calls give the same text.
func (d *drawing) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>%s</style>
<rect class="bg" width="%d" height="%d"/>
%s</svg>
`, d.width, d.height, d.width, d.height, html.EscapeString(d.title), style, d.width, d.height, d.body.String())
}

// Where a text is from its point.
const (
	toTheRight = "start"
	toTheLeft  = "end"
	around     = "middle"
)

func (d *drawing) text(x, y float64, class, anchor, text string) {
	fmt.Fprintf(&d.body, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">%s</text>\n",
		x, y, class, anchor, html.EscapeString(text))
}

func (d *drawing) bar(x, y, width, height float64, class string) {
	fmt.Fprintf(&d.body, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "+
		"class=\"bar %s\"/>\n", x, y, width, height, class)
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&d.body, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n",
		x1, y1, x2, y2, class)
}

func (d *drawing) dot(x, y float64, class string) {
	fmt.Fprintf(&d.body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"%s\"/>\n", x, y, class)
}

// place is a point of the picture.
type place struct{ x, y float64 }

// curve draws a line through all points.
func (d *drawing) curve(points []place, class string) {
	text := make([]string, len(points))
	for i, p := range points {
		text[i] = fmt.Sprintf("%.1f,%.1f", p.x, p.y)
	}
	fmt.Fprintf(&d.body, "<polyline points=\"%s\" class=\"curve %s\"/>\n", strings.Join(text, " "),
		class)
}

package main

import (
	_ "embed"
	"html/template"
	"io"
	"os"
)

//go:embed page.html
var source string

var page = template.Must(template.New("page").Parse(source))

// content is what the page shows.
type content struct {
	Command, Load string
	Sections      []section
}

// writePage writes the page to a file.
func writePage(name string, s *settings, sections []section) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := renderPage(f, s, sections); err != nil {
		_ = f.Close() // the first error says why
		return err
	}
	return f.Close()
}

func renderPage(w io.Writer, s *settings, sections []section) error {
	return page.Execute(w, content{s.command, s.load.String(), sections})
}

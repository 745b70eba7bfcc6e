package main

import (
	"io"
	"os"
	"path/filepath"
)

// render reads results, writes them as one file and as pictures to a directory, and prints their
// tables.
func render(files []string, out string, stdout io.Writer) error {
	r, err := readReports(files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := r.write(filepath.Join(out, "results.json")); err != nil {
		return err
	}
	for _, p := range r.pictures() {
		if err := os.WriteFile(filepath.Join(out, p.name), []byte(p.text), 0o644); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, r.markdown())
	return err
}

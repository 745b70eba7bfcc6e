package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/lockpipe/lockpipe/bench"
)

// openJSON opens what -json names, before the run, so that a wrong name costs no time: nil for "", stdout for "-".
func openJSON(name string, stdout io.Writer) (io.WriteCloser, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return keepOpen{stdout}, nil
	}
	return os.Create(name)
}

// keepOpen is a writer that is not ours to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func writeJSON(out io.WriteCloser, r *bench.Report) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return errors.Join(encoder.Encode(r), out.Close())
}

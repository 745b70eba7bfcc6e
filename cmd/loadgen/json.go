package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// openJSON opens what -json names, before the run, so that a wrong name costs no time: nil for "",
// stdout for "-".
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

// wroteJSON writes what was found to out, if that is not nil, and reports whether that went
// well; if not it says so.
func wroteJSON(found any, name string, out io.WriteCloser, stderr io.Writer) bool {
	if out == nil {
		return true
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := errors.Join(encoder.Encode(found), out.Close()); err != nil {
		fmt.Fprintf(stderr, "loadgen: -json %q: %v\n", name, err)
		return false
	}
	return true
}

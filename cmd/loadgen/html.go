package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/page"
)

// openHTML opens what -html names, before the run, so that a wrong name costs no time: nil for "".
func openHTML(name string) (io.WriteCloser, error) {
	if name == "" {
		return nil, nil
	}
	return os.Create(name)
}

// wroteHTML writes the page to out, if that is not nil, and reports whether that went well; if
// not it says so.
func wroteHTML(r *bench.Report, runErr error, name string, out io.WriteCloser,
	stderr io.Writer,
) bool {
	if out == nil {
		return true
	}
	if err := errors.Join(page.Write(out, r, runErr), out.Close()); err != nil {
		fmt.Fprintf(stderr, "loadgen: -html %q: %v\n", name, err)
		return false
	}
	return true
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/page"
)

// openHTML opens what -html names, before the run, so that a wrong name costs no time: nil for "".
func openHTML(name string) (io.WriteCloser, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return nil, errors.New("the table is on stdout")
	}
	return os.Create(name)
}

// readPeers reads what -peers names, before the run: nil for "".
func readPeers(o options) ([]byte, error) {
	if o.peers == "" {
		return nil, nil
	}
	if o.html == "" {
		return nil, errors.New("there is no page to show it")
	}
	text, err := os.ReadFile(o.peers)
	if err == nil && !json.Valid(text) {
		err = errors.New("it is not JSON")
	}
	return text, err
}

// wroteHTML writes the page to out, if that is not nil, and reports whether that went well; if
// not it says so.
func wroteHTML(r *bench.Report, runErr error, name string, out io.WriteCloser,
	peers []byte, stderr io.Writer,
) bool {
	if out == nil {
		return true
	}
	var notes []string
	if peers != nil {
		line, err := page.Peers(bytes.NewReader(peers), r)
		if err != nil {
			line = "Other libraries: " + err.Error() + "."
		}
		notes = append(notes, line)
	}
	if err := errors.Join(page.Write(out, r, runErr, notes...), out.Close()); err != nil {
		fmt.Fprintf(stderr, "loadgen: -html %q: %v\n", name, err)
		return false
	}
	return true
}

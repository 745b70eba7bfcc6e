package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lockpipe/lockpipe/bench/inspect"
)

// look inspects the nodes instead of putting load on them, prints what it found, as JSON to out
// if that is not nil, and returns the exit code.
func look(ctx context.Context, opts options, out io.WriteCloser, stdout, stderr io.Writer) int {
	found, err := inspect.Run(ctx, opts.look)
	if found == nil {
		return failed(ctx, err, "the nodes had answered", stderr)
	}
	printError(stderr, err)
	if opts.json != "-" {
		printFindings(stdout, found)
	}
	if !wroteJSON(found, opts.json, out, stderr) || err != nil || !found.Safe() {
		return exitUnsafe
	}
	return exitSafe
}

// printFindings prints for people what is also in the JSON.
func printFindings(out io.Writer, found *inspect.Findings) {
	all := found.Nodes
	if found.Next != "" {
		all += " and " + found.Next
	}
	fmt.Fprintf(out, "loadgen %s, inspection of %s (%s)\n", found.Version, all, found.Backend)
	printNote(out, found.NodesNote)
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range found.Findings {
		node := f.Node
		if node == "" {
			node = "all nodes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Severity, node, f.Text)
	}
	_ = w.Flush()
}

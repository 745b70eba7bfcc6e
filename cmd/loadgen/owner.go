package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockpipe/lockpipe/bench/figures"
	"github.com/lockpipe/lockpipe/bench/owned"
)

// maxOwners is how many other owners are shown; the JSON has all.
const maxOwners = 20

// releaseOwner lists the keys of an owner instead of putting load on the nodes, and frees them with
// -yes. It writes JSON to out if that is not nil, and returns the exit code.
func releaseOwner(ctx context.Context, opts options, out io.WriteCloser, stdout, stderr io.Writer,
) int {
	found, err := owned.Run(ctx, owned.Config{
		Nodes: opts.config.Nodes, Prefix: opts.look.Prefix, Owner: opts.owner, Free: opts.free,
	})
	if found == nil {
		return failed(ctx, err, "the nodes had answered", stderr)
	}
	printError(stderr, err)
	missed := 0
	for _, k := range found.Keys {
		if opts.free && k.Freed < k.Nodes {
			missed++
		}
	}
	if opts.json != "-" {
		printOwned(stdout, found, opts.free, missed)
	}
	if !wroteJSON(found, opts.json, out, stderr) || err != nil || missed > 0 {
		return exitUnsafe
	}
	return exitSafe
}

// printOwned prints for people what is also in the JSON.
func printOwned(out io.Writer, found *owned.Report, freed bool, missed int) {
	fmt.Fprintf(out, "loadgen %s, keys that %s holds on %s\n\n", found.Version, found.Owner,
		found.Nodes)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "key\tnodes\tfreed\tleft\n")
	for _, k := range found.Keys {
		left := "no end"
		if k.LeftS >= 0 {
			left = time.Duration(k.LeftS * float64(time.Second)).String()
		}
		fmt.Fprintf(w, "%q\t%d of %d\t%d\t%s\n", k.Key, k.Nodes, found.Size, k.Freed, left)
	}
	if len(found.Keys) > 0 {
		_ = w.Flush()
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%s", figures.Plural(len(found.Keys), "key"))
	switch {
	case len(found.Keys) == 0 && len(found.Others) > 0:
		fmt.Fprint(out, ". Other owners have keys: ",
			strings.Join(found.Others[:min(maxOwners, len(found.Others))], ", "))
	case missed > 0:
		fmt.Fprintf(out, ", and %d of them not freed on all nodes that had them: a node did not "+
			"answer, or the key has changed. List them again", missed)
	case freed:
		fmt.Fprint(out, ", freed on each node that answered")
	case len(found.Keys) > 0:
		fmt.Fprintf(out, ". Nothing was freed. If no process with the owner %s runs any more, give "+
			"-yes too: that frees them", found.Owner)
	}
	fmt.Fprintln(out, ".")
	if found.Kept > 0 {
		fmt.Fprintf(out, "%s more left by Lease.Keep: they stay until their time has passed.\n",
			figures.Plural(found.Kept, "key"))
	}
}

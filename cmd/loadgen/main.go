// Command loadgen puts load on lockpipe, checks that no key ever has two holders and that nothing
// is left behind, and prints what it found. Without any flag it starts five nodes and runs for ten
// seconds. See loadgen -h.
//
// With -inspect it puts no load on the nodes, but inspects them and prints what it found. With
// -release-owner it lists the keys that an owner holds and, with -yes, frees them.
//
// It exits with 0 if there was no violation, no fence that went back and no leftover key, and in
// the scenario hold no lease that was lost or dead, nor with -inspect an error among the findings,
// nor with -release-owner a node or a key that was missed; with 2 if it was called in a wrong way,
// else with 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockpipe/lockpipe/bench"
)

const (
	exitSafe   = 0
	exitUnsafe = 1 // or not known to be safe
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the run; a second one ends the program.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program but for its surroundings. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage())
		return exitSafe
	case err != nil:
		return misused(stderr, err)
	}
	out, err := openJSON(opts.json, stdout)
	if err != nil {
		return unusable(stderr, "json", opts.json, err, "a file that can be written, or -")
	}
	switch {
	case opts.inspect:
		return look(ctx, opts, out, stdout, stderr)
	case opts.owner != "":
		return releaseOwner(ctx, opts, out, stdout, stderr)
	}
	stop, err := serveMetrics(opts.metrics, &opts.config)
	if err != nil {
		return unusable(stderr, "metrics", opts.metrics, err, "an address such as :2112")
	}
	defer stop()
	html, err := openHTML(opts.html)
	if err != nil {
		return unusable(stderr, "html", opts.html, err, "a file that can be written")
	}
	peers, err := readPeers(opts)
	if err != nil {
		return unusable(stderr, "peers", opts.peers, err, "a file that bench/peers wrote, and -html")
	}
	bar := newBar(stderr, opts.config.Duration)
	opts.config.Progress = bar.update
	report, err := bench.Run(ctx, opts.config)
	bar.close()
	if report == nil {
		return failed(ctx, err, "the first call", stderr)
	}
	printError(stderr, err)
	code := finish(report, err, opts.json, out, stdout, stderr)
	if !wroteHTML(report, err, opts.html, html, peers, stderr) {
		return exitUnsafe
	}
	return code
}

// misused prints what is wrong with the command line, and returns the exit code.
func misused(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "loadgen: %v\nRun loadgen -h to see all flags.\n", flagError(err))
	return exitUsage
}

// unusable prints what is wrong with the value of a flag, and returns the exit code.
func unusable(stderr io.Writer, name, value string, err error, remedy string) int {
	fmt.Fprintf(stderr, "loadgen: -%s %q: %v; give %s\n", name, value, err, remedy)
	return exitUsage
}

// failed prints why there is no result, and returns the exit code. before is what was not reached.
func failed(ctx context.Context, err error, before string, stderr io.Writer) int {
	var wrong *bench.ConfigError
	switch {
	case errors.As(err, &wrong):
		return misused(stderr, wrong)
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "loadgen: interrupted before %s\n", before)
	default:
		printError(stderr, err)
	}
	return exitUnsafe
}

// printError prints what went wrong, if anything did.
func printError(stderr io.Writer, err error) {
	if err != nil {
		fmt.Fprintf(stderr, "loadgen: %v\n", err)
	}
}

// finish prints the report, as JSON to out if that is not nil, and returns the exit code.
func finish(r *bench.Report, runErr error, json string, out io.WriteCloser, stdout,
	stderr io.Writer,
) int {
	if json != "-" {
		printTable(stdout, r)
	}
	if !wroteJSON(r, json, out, stderr) || runErr != nil || !r.Safe() {
		return exitUnsafe
	}
	return exitSafe
}

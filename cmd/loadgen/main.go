// Command loadgen puts load on lockpipe, checks that no key ever has two holders and that nothing
// is left behind, and prints what it found. Without any flag it starts five nodes and runs for ten
// seconds. See loadgen -h.
//
// With -inspect it puts no load on the nodes, but inspects them and prints what it found.
//
// It exits with 0 if there was no violation, no fence that went back and no leftover key, and in
// the scenario hold no lease that was lost or dead, nor with -inspect an error among the findings;
// with 2 if it was called in a wrong way, else with 1.
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
		fmt.Fprintf(stderr, "loadgen: -json %q: %v; give a file that can be written, or -\n",
			opts.json, err)
		return exitUsage
	}
	if opts.inspect {
		return inspect(ctx, opts, out, stdout, stderr)
	}
	stop, err := serveMetrics(opts.metrics, &opts.config)
	if err != nil {
		fmt.Fprintf(stderr, "loadgen: -metrics %q: %v; give an address such as :2112\n",
			opts.metrics, err)
		return exitUsage
	}
	defer stop()
	html, err := openHTML(opts.html)
	if err != nil {
		fmt.Fprintf(stderr, "loadgen: -html %q: %v; give a file that can be written\n", opts.html,
			err)
		return exitUsage
	}
	peers, err := readPeers(opts)
	if err != nil {
		fmt.Fprintf(stderr, "loadgen: -peers %q: %v; give a file that bench/peers wrote, and -html\n",
			opts.peers, err)
		return exitUsage
	}
	bar := newBar(stderr, opts.config.Duration)
	opts.config.Progress = bar.update
	report, err := bench.Run(ctx, opts.config)
	bar.close()

	var wrong *bench.ConfigError
	switch {
	case errors.As(err, &wrong):
		return misused(stderr, wrong)
	case report == nil && ctx.Err() != nil:
		fmt.Fprintln(stderr, "loadgen: interrupted before the first call")
		return exitUnsafe
	case err != nil:
		fmt.Fprintf(stderr, "loadgen: %v\n", err)
	}
	if report == nil {
		return exitUnsafe
	}
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

// finish prints the report, as JSON to out if that is not nil, and returns the exit code.
func finish(r *bench.Report, runErr error, json string, out io.WriteCloser, stdout,
	stderr io.Writer,
) int {
	if json != "-" {
		printTable(stdout, r)
	}
	if !wroteJSON(r, json, out, stderr) {
		return exitUnsafe
	}
	if runErr != nil || !r.Safe() {
		return exitUnsafe
	}
	return exitSafe
}

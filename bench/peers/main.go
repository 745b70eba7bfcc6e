// Command peers compares lock libraries on the same Redis nodes.
//
//	cd bench/peers && go run .                                  every scenario, every default contender
//	go run . -scenario 512 -contenders lockpipe,redsync-rueidis  one question
//	go run . -rounds 2 -d 300ms                                  a look
//	go run . -render a.json,b.json -out dir                      results as tables and pictures; see make bench-peers
//
// It starts five masters, opens a client of each library and keeps all of them open, checks from
// outside that each is a lock at all, and then lets them take turns: in every round each contender
// once, with a warm-up, A B C A B C. It prints the medians over the rounds. One operation is an
// acquire and a release of distinct random keys with a TTL of 30 s, so nobody waits for a holder:
// what is compared is the cost of locking, not the fairness of waiting.
//
// The hot scenarios are about waiting: all callers want one and the same key. In hot they share one
// client, and in hot16 each of 16 callers has a client of its own. In hot-processes the callers are
// in several processes. So what comes of the order in which a server answers its connections shows
// only there. The figures of fairness are least/mean, the index of Jain, and the 99th percentile of
// the caller that waits worst. In hot-processes they compare processes instead of callers.
//
// In these scenarios the latencies are how long the key was waited for, and lockpipe's figures are
// divided by those of each other contender. Each library waits as its documentation says, without a
// limit of tries; the footnotes say how. For those that try again at intervals most of a wait is
// that interval: -retry gives them a shorter one. Read p50 together with least/mean: if the caller
// that has just given the key back gets it again, half of the waits are next to nothing and the
// other callers starve, which shows in p99, max and least/mean.
//
// In far and mixed the nodes are at a distance, and in held the client also holds many leases;
// there acquire and release have separate figures. The scenarios of growth are of lockpipe alone:
// what a lock costs with more callers, nodes, keys a call, and a held lease with more of them.
//
// Read the footnotes. A lock of redislock or rueidislock rests on one server, which makes it
// cheaper and another thing: it is gone with that server. The column "errors" counts failed calls,
// and "left" the keys that were still on the nodes after the last release; a contender is not fast
// if these are not zero.
//
// The contenders run with their libraries' defaults except for what the comments in their files
// give a reason for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if os.Getenv(processVar) == "" {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	} else {
		connected := os.NewFile(connectedFile, "connected")
		err = processMain(ctx, os.Stdin, connected, os.Stdout)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.render != "" {
		return render(strings.Split(o.render, ","), o.out, stdout)
	}
	n, err := openNodes(ctx, o.nodes)
	if err != nil {
		return err
	}
	defer n.close()
	fields, err := openAll(ctx, o.entries, n)
	if err != nil {
		return err
	}
	defer closeAll(fields)

	for _, s := range o.scenarios {
		if s.hot != nil && s.hot.own {
			if err := openOwnClients(ctx, fields, n, s.callers); err != nil {
				return err
			}
			break
		}
	}
	rep := newReport(n, o.set)
	rep.Runs[0].heading(stdout)
	var failed []error
	for i, s := range o.scenarios {
		// What one scenario failed by must not cost the others' results.
		if err := rep.add(ctx, s, i, o.set, fields, n, stdout, stderr); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if o.json != "" {
		failed = append(failed, rep.write(o.json))
	}
	return errors.Join(failed...)
}

// add runs a scenario, prints what came out, and keeps it.
func (r *report) add(ctx context.Context, s scenario, number int, set settings, fields []field,
	n *nodes, stdout, stderr io.Writer,
) error {
	switch {
	case s.growth != nil:
		fmt.Fprintf(stderr, "%s ...\n", s.name)
		c, err := runGrowth(ctx, s, number, set, n)
		if err != nil {
			return err
		}
		r.Growth = append(r.Growth, c)
		c.print(stdout)
	case s.name == growthHeldName:
		fmt.Fprintf(stderr, "%s ...\n", s.name)
		c, err := runGrowthHeld(ctx, s, number, set, n)
		if err != nil {
			return err
		}
		r.Held = &c
		c.print(stdout)
	default:
		k, why, err := newLineup(ctx, s, number, fields, n)
		defer k.close()
		if err != nil {
			return err
		}
		if why != "" {
			fmt.Fprintf(stdout, "\n%s: skipped, %s\n", s.name, why)
			return nil
		}
		turn := set.warmup + set.window
		if s.held != nil {
			set.window = s.held.window(set.window)
			// Every second turn has leases that settle.
			turn = set.warmup + set.window + fraction(s.held.ttl, heldSettle)/2
		}
		fmt.Fprintf(stderr, "%s: about %.0f s ...\n", s.name,
			float64(set.rounds*len(k.all))*turn.Seconds())
		t, err := runScenario(ctx, s, k.all, set, n)
		if err != nil {
			return err
		}
		r.Tables = append(r.Tables, t)
		if err := t.print(stdout); err != nil {
			return err
		}
	}
	r.Runs[0].Scenarios = append(r.Runs[0].Scenarios, s.name)
	return nil
}

// runScenario plays one scenario and draws its table up.
func runScenario(ctx context.Context, s scenario, all []contestant, set settings, n *nodes) (table,
	error,
) {
	t := table{Scenario: s.name, About: s.about, Callers: s.callers, Keys: s.keys}
	rounds, err := runRounds(ctx, s, all, set)
	if err != nil {
		return t, err
	}
	for i, c := range all {
		left := -1
		// On nodes of somebody else's, a look at every key is not ours to take.
		if n.local != nil {
			if left, err = n.left(ctx, c.tag); err != nil {
				return t, err
			}
		}
		t.Lines = append(t.Lines, summarize(c, rounds[i], left))
	}
	t.Baseline = compare(t.Lines, baseline)
	t.paced = all[0].pace != nil
	if s.held != nil {
		t.HeldP99 = pairedP99(rounds[0], rounds[1])
	}
	if s.hot != nil {
		t.hot, t.HoldMs, t.RetryMs = true, millis(s.hot.hold), millis(s.hot.retry)
		t.Against, t.Processes = against(t.Lines, lockpipeName), s.hot.processes
	}
	return t, nil
}

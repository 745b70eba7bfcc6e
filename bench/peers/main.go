// Command peers compares lock libraries on the same Redis nodes.
//
//	cd bench/peers && go run .                                  every scenario, every default contender
//	go run . -scenario 512 -contenders lockpipe,redsync-rueidis  one question
//	go run . -rounds 2 -d 300ms                                  a look
//
// It starts five masters, opens a client of each library and keeps all of them open, checks from outside that each is a
// lock at all, and then lets them take turns: in every round each contender once, with a warm-up, A B C A B C. It
// prints the medians over the rounds. One operation is an acquire and a release of distinct random keys with a TTL of
// 30 s, so nobody waits for a holder: what is compared is the cost of locking, not the fairness of waiting.
//
// The scenarios hot and hot16 are about waiting: all callers want one and the same key. In hot they share one client, in
// hot16 each of 16 callers has a client of its own, as processes have. There the latencies are how long the key was waited for,
// and lockpipe's figures are divided by those of each other contender. Each library waits as its documentation says,
// without a limit of tries; the footnotes tell how. For those that try again at intervals most of a wait is that interval:
// -retry gives them a shorter one. Read p50 together with least/mean: where the caller that has just given the key back gets
// it again, half of the waits are next to nothing and the other callers starve, which shows in p99, max and least/mean.
//
// Read the footnotes. A lock of redislock or rueidislock rests on one server, which makes it cheaper and another thing:
// it is gone with that server. The column "errors" counts failed calls, and "left" the keys that were still on the
// nodes after the last release; a contender is not fast where these are not zero.
//
// The contenders run with their libraries' defaults except for what the comments in their files give a reason for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// options are the flags, parsed.
type options struct {
	scenarios []scenario
	entries   []entry
	set       settings
	nodes     string
	json      string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var (
		o          options
		fs         = flag.NewFlagSet("peers", flag.ContinueOnError)
		which      = fs.String("scenario", "all", "one, 64, 512, batch, frozen, hot, hot16 or all; or several, comma-separated")
		load       hotLoad
		callers    int
		contenders = fs.String("contenders", "default",
			"default, all, or a comma-separated list of:\n"+strings.Join(names(registry), ", "))
	)
	fs.SetOutput(stderr)
	fs.IntVar(&o.set.rounds, "rounds", 5, "how many times each contender runs in each scenario")
	fs.DurationVar(&o.set.window, "d", 2*time.Second, "how long each round measures")
	fs.DurationVar(&o.set.warmup, "warmup", 300*time.Millisecond, "how long each round runs before it measures")
	fs.IntVar(&callers, "callers", defaultHotCallers, "how many callers wait for the key in scenario hot")
	fs.DurationVar(&load.hold, "hold", 0, "how long they hold the key in scenarios hot and hot16, such as 1ms")
	fs.DurationVar(&load.retry, "retry", 0,
		"how long redsync and redislock wait between two tries in scenarios hot and hot16;\n0: as their documentation says")
	fs.StringVar(&o.nodes, "nodes", "local:5",
		"local:N starts N masters; else a comma-separated list of URLs of running ones")
	fs.StringVar(&o.json, "json", "", "write everything, round by round, to this `file`")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.set.rounds < 1:
		err = fmt.Errorf("-rounds %d: want at least 1", o.set.rounds)
	case o.set.window <= 0 || o.set.warmup < 0:
		err = errors.New("-d must be positive and -warmup not negative")
	case callers < 1 || callers > maxHotCallers:
		err = fmt.Errorf("-callers %d: want 1 to %d", callers, maxHotCallers)
	case load.hold < 0 || load.hold > maxHold:
		err = fmt.Errorf("-hold %v: want 0 or a time such as 1ms, at most %v", load.hold, maxHold)
	case load.retry < 0 || load.retry > maxHold:
		err = fmt.Errorf("-retry %v: want a time such as 5ms, at most %v, or 0 for what the documentation says", load.retry, maxHold)
	}
	if err != nil {
		return o, err
	}
	if o.scenarios, err = chooseScenarios(*which); err != nil {
		return o, err
	}
	o.scenarios = withHot(o.scenarios, callers, load)
	o.entries, err = choose(*contenders)
	return o, err
}

func chooseScenarios(list string) ([]scenario, error) {
	if list == "all" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no scenario %q", name)
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
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
			if err := openCrews(ctx, fields, n, s.callers); err != nil {
				return err
			}
			break
		}
	}

	rep := newReport(n, o.set)
	rep.heading(stdout)
	for i, s := range o.scenarios {
		all, why := contestants(s, i, fields, n)
		if why != "" {
			fmt.Fprintf(stdout, "\n%s: skipped, %s\n", s.name, why)
			continue
		}
		seconds := float64(o.set.rounds*len(all)) * (o.set.warmup + o.set.window).Seconds()
		fmt.Fprintf(stderr, "%s: about %.0f s ...\n", s.name, seconds)
		t, err := runScenario(ctx, s, all, o.set, n)
		if err != nil {
			return err
		}
		if err := t.print(stdout); err != nil {
			return err
		}
		rep.Tables = append(rep.Tables, t)
	}
	if o.json == "" {
		return nil
	}
	return rep.write(o.json)
}

// contestants turns the contenders into the lines of one scenario's table, or says why there can be none.
func contestants(s scenario, number int, fields []field, n *nodes) (all []contestant, why string) {
	add := func(f field, c contestant) {
		c.contender, c.where = f.Contender, f.where+c.where
		c.tag = fmt.Sprintf("%x%x", number, len(all))
		all = append(all, c)
	}
	if s.hot != nil {
		why = hotContestants(s, fields, add)
		return all, why
	}
	if s.name != frozenName {
		for _, f := range fields {
			add(f, contestant{label: f.Name()})
		}
		return all, ""
	}
	if n.local == nil || len(n.urls) < 3 {
		return nil, "it needs at least 3 local nodes"
	}
	for _, f := range fields {
		if c, ok := f.Contender.(settler); ok {
			settle := c.Settle
			add(f, contestant{label: f.Name(), before: settle})
			add(f, contestant{
				label:  fmt.Sprintf("%s, 1 of %d frozen", f.Name(), len(n.urls)),
				where:  "; a stopped local node leaves its CPU time to the others, so this can be the faster line",
				before: func(context.Context) error { return n.freeze() },
				after: func(ctx context.Context) error {
					if err := n.thaw(); err != nil {
						return err
					}
					return settle(ctx)
				},
			})
		}
	}
	if len(all) == 0 {
		return nil, "it is a scenario of lockpipe"
	}
	return all, ""
}

// runScenario plays one scenario and draws its table up.
func runScenario(ctx context.Context, s scenario, all []contestant, set settings, n *nodes) (table, error) {
	t := table{Scenario: s.name, About: s.about, Callers: s.callers, Keys: s.keys}
	rounds, err := play(ctx, s, all, set)
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
	if s.hot != nil {
		t.hot, t.HoldMs, t.RetryMs = true, millis(s.hot.hold), millis(s.hot.retry)
		t.Against = against(t.Lines, lockpipeName)
	}
	return t, nil
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// options are the flags, parsed.
type options struct {
	scenarios []scenario
	entries   []entry
	set       settings
	nodes     string
	json      string
	// render is what to draw, and out where to, instead of measuring.
	render, out string

	hot  hotFlags
	held heldLoad
}

func parse(args []string, stderr io.Writer) (options, error) {
	var (
		o     options
		fs    = flag.NewFlagSet("peers", flag.ContinueOnError)
		which = fs.String("scenario", "all", "comma-separated, of:\n"+
			strings.Join(scenarioNames(), ", ")+";\nall; or growth for what begins with it")
		contenders = fs.String("contenders", "default",
			"default, all, or a comma-separated list of:\n"+strings.Join(names(registry), ", "))
	)
	fs.SetOutput(stderr)
	fs.IntVar(&o.set.rounds, "rounds", 5, "how many times each contender runs in each scenario")
	fs.DurationVar(&o.set.window, "d", 2*time.Second, "how long each round measures")
	fs.DurationVar(&o.set.warmup, "warmup", 300*time.Millisecond,
		"how long each round runs before it measures")
	fs.IntVar(&o.hot.callers, "callers", defaultHotCallers, "how many callers wait for the key in "+
		"scenario hot")
	fs.IntVar(&o.hot.processes, "processes", defaultProcesses, "how many processes wait for the "+
		"key in scenario "+processesName)
	fs.IntVar(&o.hot.processCallers, "process-callers", defaultProcessCallers,
		"how many callers each of these processes has")
	fs.Func("hold", "how long a caller holds the key in the hot scenarios, such as 1ms "+
		fmt.Sprintf("(default %v in %s, 0 in the others)", defaultProcessHold, processesName),
		func(text string) error {
			hold, err := time.ParseDuration(text)
			o.hot.hold = &hold
			return err
		})
	fs.DurationVar(&o.hot.retry, "retry", 0,
		"how long redsync and redislock wait between two tries in the hot scenarios;\n0: "+
			"as their documentation says")
	fs.IntVar(&o.held.leases, "leases", defaultHeld.leases,
		"how many leases are held in scenario held; growth-held goes from a hundredth of that "+
			"to ten times as many")
	fs.DurationVar(&o.held.ttl, "ttl", defaultHeld.ttl, "the TTL of leases that are held; the "+
		"largest number has up to six times as much")
	fs.StringVar(&o.nodes, "nodes", "local:5",
		"local:N starts N masters; else a comma-separated list of URLs of running ones")
	fs.StringVar(&o.json, "json", "", "write everything, round by round, to this `file`")
	fs.StringVar(&o.render, "render", "", "measure nothing, but draw what these `files`, "+
		"comma-separated, say, and print it for docs/benchmarks.md")
	fs.StringVar(&o.out, "out", ".", "the directory that -render writes results.json and the "+
		"pictures to")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	err := o.check()
	if err != nil {
		return o, err
	}
	if o.scenarios, err = chooseScenarios(*which); err != nil {
		return o, err
	}
	o.scenarios = withHeld(withHot(o.scenarios, o.hot), o.held)
	o.entries, err = choose(*contenders)
	return o, err
}

// check returns an error that names the flag whose value can't be used.
func (o options) check() error {
	switch {
	case o.set.rounds < 1:
		return fmt.Errorf("-rounds %d: want at least 1", o.set.rounds)
	case o.set.window <= 0 || o.set.warmup < 0:
		return errors.New("-d must be positive and -warmup not negative")
	case o.hot.callers < 1 || o.hot.callers > maxHotCallers:
		return fmt.Errorf("-callers %d: want 1 to %d", o.hot.callers, maxHotCallers)
	case o.hot.processes < 1 || o.hot.processes > maxProcesses:
		return fmt.Errorf("-processes %d: want 1 to %d", o.hot.processes, maxProcesses)
	case o.hot.processCallers < 1 || o.hot.processCallers > maxProcessCallers:
		return fmt.Errorf("-process-callers %d: want 1 to %d", o.hot.processCallers,
			maxProcessCallers)
	case o.hot.hold != nil && (*o.hot.hold < 0 || *o.hot.hold > maxHold):
		return fmt.Errorf("-hold %v: want 0 or a time such as 1ms, at most %v", *o.hot.hold, maxHold)
	case o.hot.retry < 0 || o.hot.retry > maxHold:
		return fmt.Errorf("-retry %v: want a time such as 5ms, at most %v, or 0 for what the "+
			"documentation says", o.hot.retry, maxHold)
	case o.held.leases < 1 || o.held.leases > mostHeld:
		return fmt.Errorf("-leases %d: want 1 to %d", o.held.leases, mostHeld)
	case o.held.ttl < leastHeldTTL || o.held.ttl > time.Minute:
		return fmt.Errorf("-ttl %v: want %v to 1m", o.held.ttl, leastHeldTTL)
	}
	return nil
}

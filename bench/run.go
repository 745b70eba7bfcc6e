// Package bench puts load on lockpipe and checks the outcome: Run takes a Config and returns a
// Report. It prints nothing; the command loadgen does. The package's own benchmarks are for
// `go test -bench . ./bench`.
package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/bench/faults"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/lockpipe/lockpipe/bench/process"
)

const (
	// closeGrace is added to the TTL, after which a Client has nothing left to clean up.
	closeGrace = 5 * time.Second
	// defaultGoroutineTimeout is how long goroutines may take to end after the Clients were closed.
	defaultGoroutineTimeout = 5 * time.Second
	// leftoverGrace is added to the TTL, after which no key of a run with faults may be left, and
	// searchPause is the time between two searches for such keys.
	leftoverGrace = time.Second
	searchPause   = 200 * time.Millisecond
)

// Run starts or connects to the nodes, lets the callers call for Config.Duration or until ctx ends,
// releases everything, and searches for keys that were left behind. If ctx ends early, that is no
// error.
//
// An error without a Report means that no call was made. It is a *ConfigError, or about nodes that
// could not be started or did not grant a first lock.
//
// An error with a Report means that a Client could not finish its releases or a node could not be
// searched, so that LeftoverKeys is not the whole truth; that a node it started did not stop; that
// a fault could not happen; that the scenario Hold was not granted every lease, and so kept none;
// or that the fleet of the scenario Move had not moved.
func Run(ctx context.Context, cfg Config) (r *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withScenario()
	opened, err := cfg.openNodes()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	var routes *faults.Routes
	if cfg.Faults != "" {
		if opened.Backend() != "redis-server" {
			return nil, &ConfigError{
				Field: "Faults", Value: cfg.Faults,
				Remedy: "faults need a redis-server on the PATH; install one (" + nodes.Install + ")",
			}
		}
		routes = &faults.Routes{}
	}

	prefix := cfg.Prefix
	if prefix == "" {
		prefix = "loadgen:" + strings.ToLower(rand.Text()[:12]) + ":"
	}
	goroutines := runtime.NumGoroutine()
	maker := cfg.maker(opened, routes)
	if cfg.Scenario == Move {
		if err := maker.Prepare(ctx, prefix+"ready"); err != nil {
			return nil, err
		}
	}
	clients, err := maker.Connect(ctx, cfg.Clients, prefix+"ready")
	if err != nil {
		return nil, err
	}
	r = &Report{
		Version:          process.Version(),
		Scenario:         cfg.Scenario,
		Backend:          opened.Backend(),
		NodesNote:        opened.Note(),
		Nodes:            len(opened.Endpoints),
		Config:           reportConfig(cfg, opened.Plan, prefix),
		GoroutinesBefore: goroutines,
	}
	run, all := prepare(cfg, prefix, clients, maker, opened.Endpoints)
	runErr := r.measure(ctx, cfg, run, all, opened, routes)

	// From here on an end of ctx changes nothing: everything is released.
	ctx = context.WithoutCancel(ctx)
	closeErr := fleet.Close(ctx, all(), cfg.TTL+closeGrace)
	r.GoroutinesAfter = process.GoroutinesLeft(goroutines, cmp.Or(cfg.goroutineTimeout,
		defaultGoroutineTimeout))
	return r, errors.Join(runErr, closeErr, r.search(ctx, cfg, opened.Endpoints))
}

// openNodes starts or finds the nodes of a Config. Close them.
func (c Config) openNodes() (*nodes.Nodes, error) {
	plan, err := c.parseNodes()
	if err != nil {
		return nil, err
	}
	return plan.Open()
}

// measure makes the load, and the faults meanwhile, and enters the outcome. run and all are those
// of prepare.
func (r *Report) measure(ctx context.Context, cfg Config,
	run func(context.Context) (measured, *HoldReport, error), all func() []*lockpipe.Client,
	n *nodes.Nodes, routes *faults.Routes,
) error {
	// At last, because its times count from the first call.
	stopFaults, err := cfg.startFaults(ctx, n, routes)
	if err != nil {
		return err
	}
	var servers check.Servers
	if cfg.Faults == "" && n.Backend() == "redis-server" { // a restarted one counts from 0
		servers = check.WatchServers(ctx, n.Endpoints)
	}
	before, stopWatching := fleet.Stats(all()), process.WatchGoroutines()
	measured, hold, runErr := run(ctx)
	r.GoroutinesMost = stopWatching()
	busiest := servers.Busiest(context.WithoutCancel(ctx))
	var faultErr error
	r.FaultReport, faultErr = stopFaults()
	after := fleet.Stats(all())
	r.OpsPerFlush = per(float64(after.Operations-before.Operations),
		float64(after.Flushes-before.Flushes))
	r.fill(measured)
	r.ServerCPUUsPerLock = per(float64(busiest)/float64(time.Microsecond), float64(r.Acquired))
	r.ServerCPUShare = per(busiest.Seconds(), r.DurationS)
	r.HoldReport = hold
	if hold != nil && r.InProcess() {
		hold.includeNodes()
	}
	if r.HotReport != nil {
		r.count(before, after, r.Acquired)
	}
	return errors.Join(runErr, faultErr)
}

// startFaults starts the faults of a run, if it has any. stop ends them and returns what happened,
// or nil without faults.
func (c Config) startFaults(ctx context.Context, n *nodes.Nodes, routes *faults.Routes) (
	stop func() (*FaultReport, error), err error,
) {
	plan, err := c.parseFaults(n.Plan)
	if err != nil || c.Faults == "" {
		return func() (*FaultReport, error) { return nil, nil }, err
	}
	servers := faults.Servers{
		Nodes: n.Started, Routes: routes, Cluster: n.Cluster, Slots: n.Slots(),
	}
	end := plan.Start(ctx, servers, faults.Draw{
		Nodes: len(n.Endpoints), Groups: c.Groups * c.layouts(), Duration: c.Duration, TTL: c.TTL,
		Seed: c.FaultSeed,
	})
	return func() (*FaultReport, error) {
		results, err := end()
		return &FaultReport{Faults: results}, err
	}, nil
}

// search counts the keys that the run has left on the nodes. After faults, Clients may give up
// releases that nodes could not answer, so keys may be there until the longest TTL has passed: then
// it searches until there are none, or until that and leftoverGrace have passed.
func (r *Report) search(ctx context.Context, cfg Config,
	endpoints []check.Endpoint,
) (err error) {
	start := time.Now()
	r.LeftoverKeys, err = check.LeftoverKeys(ctx, endpoints, r.Config.Prefix)
	if r.FaultReport == nil {
		return err
	}
	r.KeysAtClose = r.LeftoverKeys
	for last := false; err == nil && r.LeftoverKeys > 0 && !last; {
		time.Sleep(searchPause)
		last = time.Since(start) > cfg.TTL+leftoverGrace
		r.LeftoverKeys, err = check.LeftoverKeys(ctx, endpoints, r.Config.Prefix)
	}
	return err
}

// prepare makes all that a scenario needs before its first call. It returns the part of the run
// that the scenario makes, and a function that returns all Clients so far.
func prepare(cfg Config, prefix string, clients []*lockpipe.Client, maker *fleet.Maker,
	endpoints []check.Endpoint,
) (run func(context.Context) (measured, *HoldReport, error), all func() []*lockpipe.Client) {
	all = func() []*lockpipe.Client { return clients }
	switch cfg.Scenario {
	case Hold:
		return newHoldRun(cfg, prefix, clients, endpoints).run, all
	case Move:
		return prepareMove(cfg, prefix, clients, maker)
	}
	l := newLoad(cfg, prefix, func(worker int) locker {
		return newLocker(cfg, clients[worker%len(clients)])
	})
	l.clients = all
	if cfg.Scenario == Combine {
		l.serveTogether(clients)
	}
	return func(ctx context.Context) (measured, *HoldReport, error) {
		return l.run(ctx), nil, nil
	}, all
}

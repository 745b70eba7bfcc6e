// Package bench puts load on lockpipe and checks what comes of it: Run takes a Config and returns a
// Report; it prints nothing. The command loadgen is its face. The package's own benchmarks are for
// `go test -bench . ./bench`.
package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// readyTimeout is how long a run waits for each Client until it was granted its first lock:
	// long enough for a machine that is busy with other things.
	readyTimeout = 15 * time.Second
	// abandonTimeout is how long a run that cannot start waits for its Clients' releases.
	abandonTimeout = time.Second
	// closeGrace is added to the TTL, after which there is nothing left for a Client to clean up.
	closeGrace = 5 * time.Second
	// scanTimeout bounds the search for leftover keys.
	scanTimeout = time.Minute
)

// Run starts or connects to the nodes, lets the callers call for Config.Duration or until ctx ends,
// releases everything, and looks for what was left behind. When ctx ends early, that is no error.
//
// An error without a Report means that no call was made: a *ConfigError, or nodes that could not be
// started or did not grant a first lock. An error beside a Report means that its LeftoverKeys is
// not the whole truth, because a Client could not finish its releases or a node could not be
// searched, that a node it started did not stop, that a fault could not happen, or that the
// scenario Hold was not granted every lease, and so kept none.
func Run(ctx context.Context, cfg Config) (r *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.settled()
	plan, err := parseNodes(cfg.Nodes)
	if err != nil {
		return nil, err
	}
	if plan, err = plan.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plan.close()) }()
	if cfg.Faults != "" && plan.backend() != "redis-server" {
		return nil, &ConfigError{
			Field: "Faults", Value: cfg.Faults,
			Remedy: "faults need a redis-server on the PATH; install it",
		}
	}
	if cfg.Faults != "" {
		plan.routes = &routes{}
	}

	prefix := cfg.Prefix
	if prefix == "" {
		prefix = "loadgen:" + strings.ToLower(rand.Text()[:12]) + ":"
	}
	goroutines := runtime.NumGoroutine()
	clients, err := connect(ctx, cfg, plan, prefix)
	if err != nil {
		return nil, err
	}
	r = &Report{
		Version:          version(),
		Scenario:         cfg.Scenario,
		Backend:          plan.backend(),
		Nodes:            len(plan.urls),
		Config:           reportConfig(cfg, plan, prefix),
		GoroutinesBefore: goroutines,
	}
	runErr := r.observe(ctx, cfg, clients, plan)

	// From here on an end of ctx changes nothing: what was taken is given back.
	ctx = context.WithoutCancel(ctx)
	closeErr := closeClients(ctx, clients, cfg.TTL+closeGrace)
	r.GoroutinesAfter = goroutinesLeft(goroutines)
	return r, errors.Join(runErr, closeErr, r.search(ctx, cfg, plan.endpoints))
}

// observe makes the load, and the faults beside it, and enters what came of them.
func (r *Report) observe(ctx context.Context, cfg Config, clients []*lockpipe.Client,
	plan nodePlan,
) error {
	run := prepare(cfg, r.Config.Prefix, clients, plan.endpoints)
	// At last, as its times are told from the first call.
	endFaults, err := cfg.startFaults(ctx, plan)
	if err != nil {
		return err
	}
	before, most := sumStats(clients), mostGoroutines(ctx)
	m, hold, runErr := run(ctx)
	r.GoroutinesMost = most()
	var faultErr error
	r.FaultReport, faultErr = endFaults()
	after := sumStats(clients)
	r.OpsPerFlush = per(float64(after.Operations-before.Operations),
		float64(after.Flushes-before.Flushes))
	r.fill(m)
	r.HoldReport = hold
	if r.HotReport != nil {
		r.count(before, after, m.acquired)
	}
	return errors.Join(runErr, faultErr)
}

// search counts what the run has left on the nodes. Where there were faults and something is found,
// it is looked for again a second after the longest TTL: Clients may give up releases that nodes
// could not answer, but nothing may outlive that.
func (r *Report) search(ctx context.Context, cfg Config, nodes []endpoint) (err error) {
	r.LeftoverKeys, err = leftoverKeys(ctx, nodes, r.Config.Prefix)
	if r.FaultReport == nil {
		return err
	}
	if r.KeysAtClose = r.LeftoverKeys; err == nil && r.KeysAtClose > 0 {
		time.Sleep(cfg.TTL + time.Second)
		r.LeftoverKeys, err = leftoverKeys(ctx, nodes, r.Config.Prefix)
	}
	return err
}

// prepare makes all that a scenario needs before its first call, and returns the part of the run
// that the scenario makes.
func prepare(cfg Config, prefix string, clients []*lockpipe.Client,
	nodes []endpoint,
) func(context.Context) (measured, *HoldReport, error) {
	if cfg.Scenario == Hold {
		return newHolding(cfg, prefix, clients, nodes).run
	}
	l := newLoad(cfg, prefix, func(worker int) taker {
		return newTaker(cfg,
			clients[worker%len(clients)])
	})
	l.look = lookAt(clients)
	return func(ctx context.Context) (measured, *HoldReport, error) { return l.run(ctx), nil, nil }
}

// connect makes the Clients and has each take and release one lock, so that connecting is not
// measured, and nodes that cannot be used are found at once. It makes a Client when the one before
// is connected: on a busy machine, handshakes of many Clients at once would time out together,
// again and again. The prefix is part of the keys' names and not of the Clients' configuration: so
// runs leave no companion keys of their own on external nodes, but with fencing.
func connect(
	ctx context.Context, cfg Config, plan nodePlan, prefix string,
) ([]*lockpipe.Client, error) {
	var clients []*lockpipe.Client
	fail := func(err error) ([]*lockpipe.Client, error) {
		// Err says what is wrong.
		_ = closeClients(context.WithoutCancel(ctx), clients, abandonTimeout)
		return nil, err
	}
	for i := range cfg.Clients {
		client, err := lockpipe.New(lockpipe.Config{
			Nodes: plan.urls, TTL: cfg.TTL, MaxTTL: cfg.longestTTL(), Dial: plan.dial(),
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return fail(&ConfigError{
				Field: "Nodes", Value: redactedAll(plan.urls),
				Remedy: err.Error(),
			})
		}
		clients = append(clients, client)
		if err := cfg.register(client, i); err != nil {
			return fail(err)
		}
		if err := takeOne(ctx, client, prefix+"ready"); err != nil {
			return fail(err)
		}
	}
	return clients, nil
}

// register has the metrics of a Client collected, where that is asked for.
func (c Config) register(client *lockpipe.Client, number int) error {
	if c.Metrics == nil {
		return nil
	}
	labels := prometheus.Labels{"client": strconv.Itoa(number)}
	if err := prometheus.WrapRegistererWith(labels, c.Metrics).Register(client); err != nil {
		return fmt.Errorf("metrics of Client %d: %w", number, err)
	}
	return nil
}

// takeOne takes and releases one lock. As an acquire is tried again until ctx ends, a release is
// asked for again: that nodes were late once does not say that they can't be used. What has run out
// meanwhile needs no release.
func takeOne(ctx context.Context, client *lockpipe.Client, key string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	lease, err := client.Acquire(ctx, key)
	if err != nil {
		return fmt.Errorf("the nodes grant no lock: %w", err)
	}
	for {
		err := lease.Release(ctx)
		if err == nil || errors.Is(err, lockpipe.ErrExpired) {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, lockpipe.ErrNoQuorum) {
			return fmt.Errorf("the nodes release no lock: %w", err)
		}
		time.Sleep(releasePause)
	}
}

// closeClients closes all at once, so that each has the whole time for its releases.
func closeClients(ctx context.Context, clients []*lockpipe.Client, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	errs := make([]error, len(clients))
	var closing sync.WaitGroup
	for i, client := range clients {
		closing.Go(func() {
			if err := client.Close(ctx); err != nil {
				errs[i] = fmt.Errorf("close client %d: %w", i, err)
			}
		})
	}
	closing.Wait()
	return errors.Join(errs...)
}

func sumStats(clients []*lockpipe.Client) (sum lockpipe.Stats) {
	for _, client := range clients {
		s := client.Stats()
		sum.Flushes += s.Flushes
		sum.Operations += s.Operations
		sum.Extended += s.Extended
		sum.Attempts += s.Attempts
		sum.SplitVotes += s.SplitVotes
		sum.Handovers += s.Handovers
	}
	return sum
}

// leftoverKeys counts the keys with the prefix on all nodes. Where a node could not be searched,
// the error says so and the count is that of the others.
func leftoverKeys(ctx context.Context, nodes []endpoint, prefix string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	total := 0
	var errs []error
	for _, node := range nodes {
		n, err := countKeys(ctx, node, prefix)
		if err != nil {
			errs = append(errs, fmt.Errorf("search %s for leftover keys: %w", node.address, err))
		}
		total += n
	}
	return total, errors.Join(errs...)
}

func redactedAll(urls []string) string {
	shown := make([]string, len(urls))
	for i, url := range urls {
		shown[i] = redacted(url)
	}
	return strings.Join(shown, ",")
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/faults"
	"github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// readyTimeout is how long a run waits for each Client until it was granted its first lock:
	// long enough for a machine that is busy with other things.
	readyTimeout = 15 * time.Second
	// abandonTimeout is how long a run that can't start waits for its Clients' releases.
	abandonTimeout = time.Second
)

// connect makes the Clients, and has each take and release one lock. So connecting is not measured,
// and nodes that can't be used are found at once. It makes a Client when the one before is
// connected: on a busy machine the handshakes of many Clients at once would time out together,
// again and again. The prefix is part of the keys' names and not of the Clients' configuration. So
// without fencing a run leaves no fence keys of its own on external nodes.
func connect(
	ctx context.Context, cfg Config, n *nodes.Nodes, routes *faults.Routes, prefix string,
) ([]*lockpipe.Client, error) {
	var clients []*lockpipe.Client
	fail := func(err error) ([]*lockpipe.Client, error) {
		// err says what is wrong.
		_ = closeClients(context.WithoutCancel(ctx), clients, abandonTimeout)
		return nil, err
	}
	for i := range cfg.Clients {
		client, err := cfg.newClient(n, routes)
		if err != nil {
			return fail(err)
		}
		clients = append(clients, client)
		if err := cfg.register(client, i); err != nil {
			return fail(err)
		}
		if err := lockOnce(ctx, client, prefix+"ready"); err != nil {
			return fail(err)
		}
	}
	return clients, nil
}

// newClient returns a Client of the nodes, which connects by routes if there are any. Its error is
// a *ConfigError.
func (c Config) newClient(n *nodes.Nodes, routes *faults.Routes) (*lockpipe.Client, error) {
	cfg := lockpipe.Config{
		Nodes: n.URLs, TTL: c.TTL, MaxTTL: c.maxTTL(), NodeTimeout: min(c.nodeTimeout, c.TTL),
		Logger: slog.New(slog.DiscardHandler),
	}
	if routes != nil {
		cfg.Dial = routes.Dial
	}
	client, err := lockpipe.New(cfg)
	if err != nil {
		return nil, &ConfigError{Field: "Nodes", Value: n.Redacted(), Remedy: err.Error()}
	}
	return client, nil
}

// register registers the metrics of a Client, if the Config asks for that.
func (c Config) register(client *lockpipe.Client, number int) error {
	if c.Metrics == nil {
		return nil
	}
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"client": strconv.Itoa(number)},
		c.Metrics)
	if err := labelled.Register(metrics.NewCollector(client)); err != nil {
		return fmt.Errorf("metrics of Client %d: %w", number, err)
	}
	return nil
}

// lockOnce takes and releases one lock. It tries to release until ctx ends, as Acquire tries to
// acquire: nodes that were late once may still be used. A lease that ran out meanwhile needs no
// release.
func lockOnce(ctx context.Context, client *lockpipe.Client, key string) error {
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

// closeClients closes all at the same time, so that each has the whole timeout for its releases.
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

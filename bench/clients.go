package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/faults"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// abandonTimeout is how long a run that can't start waits for its Clients' releases.
const abandonTimeout = time.Second

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
		_ = fleet.Close(context.WithoutCancel(ctx), clients, abandonTimeout)
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
		if err := fleet.LockOnce(ctx, client, prefix+"ready"); err != nil {
			return fail(err)
		}
	}
	return clients, nil
}

// newClient returns a Client of the nodes, which connects by routes if there are any. Its error is
// a *ConfigError.
func (c Config) newClient(n *nodes.Nodes, routes *faults.Routes) (*lockpipe.Client, error) {
	cfg := lockpipe.Config{
		TTL: c.TTL, MaxTTL: c.maxTTL(), NodeTimeout: min(c.nodeTimeout, c.TTL),
		Logger: slog.New(slog.DiscardHandler),
	}
	c.useNodes(&cfg, n.URLs)
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

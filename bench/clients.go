package bench

import (
	"log/slog"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/faults"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/nodes"
)

// maker returns what makes the Clients of the nodes, which connect by routes if there are any. The
// prefix of the run is part of the keys' names and not of the Clients' configuration. So without
// fencing a run leaves nothing of its own on external nodes.
func (c Config) maker(n *nodes.Nodes, routes *faults.Routes) *fleet.Maker {
	return &fleet.Maker{
		New: func(stage fleet.Stage) (*lockpipe.Client, error) {
			return c.newClient(n, routes, stage)
		},
		Metrics: c.Metrics,
	}
}

// newClient returns a Client. Its error is a *ConfigError.
func (c Config) newClient(n *nodes.Nodes, routes *faults.Routes, stage fleet.Stage) (
	*lockpipe.Client, error,
) {
	cfg := lockpipe.Config{
		TTL: c.TTL, MaxTTL: c.maxTTL(), NodeTimeout: min(c.nodeTimeout, c.TTL),
		Logger: slog.New(slog.DiscardHandler),
	}
	old := len(n.URLs) / c.layouts()
	fleet.UseNodes(&cfg, n.URLs[:old], n.URLs[old:], c.Groups, stage)
	if routes != nil {
		cfg.Dial = routes.Dial
	}
	client, err := lockpipe.New(cfg)
	if err != nil {
		return nil, &ConfigError{Field: "Nodes", Value: n.Redacted(), Remedy: err.Error()}
	}
	return client, nil
}

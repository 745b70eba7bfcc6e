package bench

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lockpipe/lockpipe"
)

// Findings is what Inspect found.
type Findings struct {
	Version string `json:"version"` // of lockpipe
	Backend string `json:"backend"` // as in Report
	Nodes   string `json:"nodes"`   // as in Report.Config
	// Findings are those of lockpipe.Client.Inspect.
	Findings lockpipe.Inspection `json:"findings"`
}

// Safe reports whether none of the findings is an error.
func (f *Findings) Safe() bool { return f.Findings.Worst() < lockpipe.SeverityError }

// Inspect starts or connects to the nodes of a Config, as Run does, and lets a Client look at them
// instead of putting load on them. An error without Findings is a *ConfigError, ctx's, or about
// nodes that could not be started; beside them, about a node that did not stop.
func Inspect(ctx context.Context, cfg Config) (f *Findings, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	plan, err := parseNodes(cfg.Nodes)
	if err != nil {
		return nil, err
	}
	if plan, err = plan.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plan.close()) }()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: plan.urls, TTL: cfg.TTL,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, &ConfigError{Field: "Nodes", Value: redactedAll(plan.urls), Remedy: err.Error()}
	}
	defer func() {
		// It holds nothing.
		_ = closeClients(context.WithoutCancel(ctx), []*lockpipe.Client{client}, abandonTimeout)
	}()
	found, err := client.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	return &Findings{
		Version: version(), Backend: plan.backend(), Nodes: plan.describe(),
		Findings: found,
	}, nil
}

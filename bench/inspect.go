package bench

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/process"
)

// Findings is what Inspect found.
type Findings struct {
	Version string `json:"version"` // of lockpipe
	Backend string `json:"backend"` // as in Report
	Nodes   string `json:"nodes"`   // as in Report.Config
	// Findings are those of lockpipe.Client.Inspect.
	Findings  lockpipe.Inspection `json:"findings"`
	NodesNote string              `json:"nodes_note,omitempty"` // as in Report
}

// Safe reports whether none of the findings is an error.
func (f *Findings) Safe() bool { return f.Findings.Worst() < lockpipe.SeverityError }

// Inspect starts or connects to the nodes of a Config, as Run does, and has a Client inspect them
// instead of putting load on them. An error without Findings is a *ConfigError, ctx's, or about
// nodes that could not be started. An error with Findings is about a node that did not stop.
func Inspect(ctx context.Context, cfg Config) (f *Findings, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opened, err := cfg.openNodes()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	cfg.Faults = "" // nothing happens to the nodes
	stage := fleet.Old
	if cfg.Scenario == Move {
		stage = fleet.Both // all nodes
	}
	client, err := cfg.newClient(opened, nil, stage)
	if err != nil {
		return nil, err
	}
	defer fleet.Abandon(ctx, client) // it holds nothing
	found, err := client.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	return &Findings{
		Version: process.Version(), Backend: opened.Backend(), Nodes: opened.Plan.String(),
		NodesNote: opened.Note(), Findings: found,
	}, nil
}

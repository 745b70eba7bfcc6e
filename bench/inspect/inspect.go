// Package inspect looks at the nodes that a load could run on. It prints nothing; the command
// loadgen does.
package inspect

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/lockpipe/lockpipe/bench/process"
)

// Config says which nodes Run looks at, and how the Clients use them whose nodes they are. Only
// Nodes is required.
type Config struct {
	// Nodes and Groups are as in bench.Config. Groups is 1 if it is 0.
	Nodes  string
	Groups int
	// Next has the nodes that the fleet is moving to, in the form of Nodes, and in as many groups;
	// "" for none.
	Next string
	// TTL, MaxTTL, Guard and Prefix are those of the Clients. A TTL that is 0 is lockpipe's
	// default. It has no effect if MaxTTL is set.
	TTL, MaxTTL time.Duration
	Guard       lockpipe.GuardMode
	Prefix      string
}

// Findings is what Run found.
type Findings struct {
	Version string `json:"version"`        // of lockpipe
	Backend string `json:"backend"`        // as in bench.Report
	Nodes   string `json:"nodes"`          // as in bench.ReportConfig
	Next    string `json:"next,omitempty"` // those of Config.Next
	// Findings are those of lockpipe.Inspect.
	Findings  lockpipe.Inspection `json:"findings"`
	NodesNote string              `json:"nodes_note,omitempty"` // as in bench.Report
}

// Safe reports whether none of the findings is an error.
func (f *Findings) Safe() bool { return f.Findings.Worst() < lockpipe.SeverityError }

// Run starts the nodes or takes those that are there, as bench.Run does, and inspects them without
// a Client: it writes nothing. An error without Findings is a *bench.ConfigError, ctx's, or about
// nodes that could not be started. An error with Findings is about a node that did not stop.
func Run(ctx context.Context, cfg Config) (f *Findings, err error) {
	cfg.Groups = max(cfg.Groups, 1)
	opened, err := cfg.open("Nodes", cfg.Nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	next, stage := new(nodes.Nodes), fleet.Old
	if cfg.Next != "" {
		if next, err = cfg.open("Next", cfg.Next); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, next.Close()) }()
		stage = fleet.Both
	}
	clients := lockpipe.Config{
		MaxTTL: cfg.MaxTTL, RestartGuard: cfg.Guard, Prefix: cfg.Prefix,
		Logger: slog.New(slog.DiscardHandler),
	}
	if cfg.MaxTTL == 0 {
		clients.TTL = cfg.TTL
	}
	fleet.UseNodes(&clients, opened.URLs, next.URLs, cfg.Groups, stage)
	found, err := lockpipe.Inspect(ctx, clients)
	if err != nil {
		return nil, cfg.configError(err, opened, next)
	}
	return &Findings{
		Version: process.Version(), Backend: opened.Backend(), Nodes: opened.Plan.String(),
		Next: next.Plan.String(), NodesNote: opened.Note(), Findings: found,
	}, nil
}

// open opens the nodes of a field. Its error is a *bench.ConfigError, or about a node that could
// not be started.
func (c Config) open(field, text string) (*nodes.Nodes, error) {
	plan, err := nodes.Parse(text)
	var wrong *nodes.Error
	switch {
	case errors.As(err, &wrong):
		return nil, &bench.ConfigError{Field: field, Value: wrong.Value, Remedy: wrong.Remedy}
	case err != nil:
		return nil, err
	}
	if remedy := plan.CheckGroups(c.Groups, 1); remedy != "" {
		return nil, &bench.ConfigError{
			Field: "Groups", Value: strconv.Itoa(c.Groups), Remedy: remedy,
		}
	}
	return plan.Open()
}

// configError returns an error of lockpipe about the Clients' configuration as one about the field
// of c; others as they are.
func (c Config) configError(err error, opened, next *nodes.Nodes) error {
	if !errors.Is(err, lockpipe.ErrInvalid) {
		return err
	}
	wrong := &bench.ConfigError{Field: "Nodes", Value: opened.Redacted(), Remedy: err.Error()}
	for field, value := range map[string]string{
		"Next": next.Redacted(), "Prefix": c.Prefix, "MaxTTL": c.MaxTTL.String(),
		"TTL": c.TTL.String(),
	} {
		if strings.Contains(err.Error(), "Config."+field) {
			wrong.Field, wrong.Value = field, value
		}
	}
	return wrong
}

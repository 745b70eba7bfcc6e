package preflight

import (
	"context"
	"log/slog"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/inspection"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/multiplex"
)

// ErrClosed is the error of an inspection that Close has ended.
var ErrClosed = inspection.ErrClosed

// Inspector inspects the nodes of a configuration, with or without a client of them. All methods
// are safe for concurrent use: see inspection.Inspector.
type Inspector struct {
	set    Settings
	client *parts.Mux // nil without a client
	nodes  *inspection.Inspector
	logger *slog.Logger
}

// New returns an Inspector of the nodes, which are configured as for a client. client is that
// client's; nil without one.
func New(nodes *parts.Nodes, cfg multiplex.Config, client *parts.Mux) *Inspector {
	of := inspection.Config{
		NodeTimeout: cfg.NodeTimeout, Dial: cfg.Dial,
		Prefix: cfg.Prefix, Guarded: cfg.Guard != guard.Off,
	}
	var all []inspection.Node
	if client != nil {
		all = client.ToInspect() // and the connectors log the panics
	} else {
		of.Logger = cfg.Logger
		for _, e := range nodes.Endpoints() {
			logins := endpoint.NewLogins(e, cfg.Credentials, cfg.Logger)
			all = append(all, inspection.Node{Logins: logins})
		}
	}
	return &Inspector{Settings{
		Guard: cfg.Guard, MaxTTL: cfg.MaxTTL, NodeTimeout: cfg.NodeTimeout,
		Layouts: nodes.Layouts(), Owner: nodes.Owner(), Sizes: nodes.Sizes(),
	}, client, inspection.New(all, of), cfg.Logger}
}

// Inspect returns what is found, as Check does. The error is ErrClosed or ctx's.
func (i *Inspector) Inspect(ctx context.Context) ([]Finding, error) {
	facts, err := i.nodes.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	var states []Status
	if i.client != nil {
		nodes, _ := i.client.Nodes()
		for _, n := range nodes {
			states = append(states, Status{n.State, n.Err})
		}
	}
	for _, f := range facts {
		if i.client != nil && f.Other.RunID != "" {
			i.logger.Error("lockpipe: node's name leads to more than one server, so locks may fail "+
				"to exclude each other: give each server a name of its own",
				slog.String("node", f.Node))
		}
	}
	return Check(i.set, facts, states), nil
}

// Close ends an inspection that is under way: see inspection.Inspector.Close.
func (i *Inspector) Close(ctx context.Context) { i.nodes.Close(ctx) }

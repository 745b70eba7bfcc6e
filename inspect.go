package lockpipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/preflight"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Severity is how much a Finding matters.
type Severity int

const (
	// SeverityInfo: good to know; nothing has to be done.
	SeverityInfo Severity = Severity(preflight.Info)
	// SeverityWarning: locks hold, but calls may fail or take long.
	SeverityWarning Severity = Severity(preflight.Warning)
	// SeverityError: the node does not vote, or locks may fail to exclude each other.
	SeverityError Severity = Severity(preflight.Error)
)

// String returns the severity as one lower-case word.
func (s Severity) String() string {
	names := [...]string{"info", "warning", "error"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("Severity(%d)", int(s))
	}
	return names[s]
}

// MarshalText returns String. There is never an error.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one fact about the nodes that matters for locks.
type Finding struct {
	// Node is the address of the node, without user and password. If the finding is about two
	// nodes, it is one of them, and Text names the other. If the finding is about all nodes, it is
	// empty.
	Node     string   `json:"node"`
	Severity Severity `json:"severity"`
	// Text is one sentence: the fact, and the advice if something should be done. It is for people
	// and may change.
	Text string `json:"text"`
}

// Inspection is what Inspect has found: the findings about each node, in the order of Config.Nodes,
// then those about several.
type Inspection []Finding

// Worst returns the highest severity among the findings; SeverityInfo if there are none.
func (i Inspection) Worst() Severity {
	worst := SeverityInfo
	for _, f := range i {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Inspect looks at all nodes for what makes locks fail or unsafe. It uses connections of its own,
// so it also looks at nodes that are down or quarantined. It finds out whether each node is
// reachable, a master and new enough, and whether it may evict keys or run out of memory. It also
// finds out what a restart does to the node's locks, how fast the node answers, and whether its
// clock runs like the client's. Then it checks that the nodes are different servers, and none a
// replica of another. It is meant for the start of a program, or for a person.
//
// Inspect takes about a second, or two or three if a node hangs, at most about four. It may be
// called at any time, and writes nothing; calls at the same time share one look, which has at most
// one connection to each node. If the node's user lacks a permission for a check, a finding names
// it. A node that can't be reached is a finding too. The error is ErrClosed, ErrInvalid or ctx's.
func (c *Client) Inspect(ctx context.Context) (Inspection, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if c.locker.IsClosing() {
		return nil, ErrClosed
	}
	facts, err := c.mux.Inspect(ctx)
	switch {
	case errors.Is(err, multiplex.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, prefix.Errorf("%w", err)
	}
	found := preflight.Check(preflight.Settings{
		Guard:  multiplex.GuardMode(c.cfg.RestartGuard),
		MaxTTL: c.cfg.MaxTTL, NodeTimeout: c.cfg.NodeTimeout,
		Layouts: c.mux.Layouts(),
	}, facts, c.mux.Sizes())
	var all Inspection
	for _, f := range found {
		all = append(all, Finding{f.Node, Severity(f.Severity), f.Text})
	}
	return all, nil
}

package lockpipe

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/preflight"
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
func (s Severity) String() string { return preflight.Severity(s).String() }

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

// Inspect looks at the nodes of cfg for what makes locks fail or unsafe, without a Client, and
// leaves no trace: it only reads, so it may look at any node in production. It finds out whether
// each node is reachable, a master and new enough, and whether it may evict keys or run out of
// memory. It also finds out what the restart guard has recorded there, what a restart does to the
// node's locks, how fast the node answers, and whether its clock runs like the caller's. Then it
// checks that each name leads to one server, and each to another, and none to a replica of another.
//
// Inspect takes about a second, and if a node hangs at most DialTimeout and three seconds. It has
// at most two connections to each node. If the node's user lacks a permission for a check, a
// finding names it. A node that can't be reached is a finding too. The error is ErrInvalid if New
// refuses cfg too, and then nothing was dialled, or it is ctx's. Inspect may be called at any time,
// and by many at once. It logs nothing but a panic of Dial or Credentials.
func Inspect(ctx context.Context, cfg Config) (Inspection, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	_, nodes, err := cfg.read()
	if err != nil {
		return nil, err
	}
	inspector := preflight.New(nodes.ToInspect(nil))
	defer inspector.Close(ctx)
	return found(inspector.Inspect(ctx))
}

// Inspect is the function Inspect for the nodes of the Client, also those that are down or
// quarantined, and says which of them have no vote. It compares each server with the one that votes
// for the Client. Calls at the same time share one look. The error is ErrClosed, ErrInvalid or
// ctx's.
func (c *Client) Inspect(ctx context.Context) (Inspection, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if c.locker.IsClosing() {
		return nil, ErrClosed
	}
	return found(c.inspector.Inspect(ctx))
}

// found returns the result of an inspection.
func found(findings []preflight.Finding, err error) (all Inspection, _ error) {
	switch {
	case errors.Is(err, preflight.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, prefix.Errorf("%w", err)
	}
	for _, f := range findings {
		all = append(all, Finding{f.Node, Severity(f.Severity), f.Text})
	}
	return all, nil
}

package lockpipe

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/prefix"
)

// Ready waits until a quorum of nodes can vote, in each group: the state of so many is NodeUp. Then
// it returns nil. Use it at the start of a service, and for a readiness probe. If ctx ends first,
// the error is a *QuorumError with each node of a group that can't vote and why; errors.Is finds
// ErrNoQuorum and ctx's error. The other errors are ErrClosed and ErrInvalid. If ctx has ended
// before, Ready does not wait, and returns what is so now. It sends nothing to the nodes.
func (c *Client) Ready(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	for {
		changed := c.locker.NodesChanged() // before the look, so that no change is missed
		if c.locker.IsClosing() {
			return ErrClosed
		}
		missing := c.withoutQuorum()
		if missing == nil {
			return nil
		}
		if end := ctx.Err(); end != nil {
			return prefix.Errorf("%w: %w", missing, end)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-c.locker.Open.Done():
		}
	}
}

// errConnecting is why a node can't vote whose first connection is being made.
var errConnecting = errors.New("not connected yet")

// withoutQuorum returns which nodes of a group can't vote now, or nil if enough can in each set.
func (c *Client) withoutQuorum() error {
	for _, nodes := range c.locker.Mux.Sets() {
		for i := range nodes {
			if n := &nodes[i]; n.State != link.Up && n.Err == nil {
				n.Err = errConnecting
			}
		}
		if e := missingQuorum("can vote", nodes); e != nil {
			return e
		}
	}
	return nil
}

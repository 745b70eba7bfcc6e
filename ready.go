package lockpipe

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/multiplex"
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
		case <-c.locker.Closing():
		}
	}
}

// errConnecting is why a node can't vote whose first connection is being made.
var errConnecting = errors.New("not connected yet")

// withoutQuorum returns which nodes of a group can't vote now, or nil if enough can in each set.
func (c *Client) withoutQuorum() *QuorumError {
	for _, nodes := range c.mux.Sets() {
		e := &QuorumError{Need: quorum.Need(len(nodes)), did: "can vote"}
		for i := range nodes {
			n := &nodes[i]
			why := n.Err
			if n.State != multiplex.NodeUp && why == nil {
				why = errConnecting
			}
			e.count(n.Addr, NodeState(n.State), why)
		}
		if e.Granted < e.Need {
			return e
		}
	}
	return nil
}

package lockpipe

import (
	"context"
	"errors"
	"sync"

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
		changed := c.nodesChanged.next() // before the look, so that no change is missed
		select {
		case <-c.closing:
			return ErrClosed
		default:
		}
		missing := c.withoutQuorum()
		if missing == nil {
			return nil
		}
		if end := ctx.Err(); end != nil {
			return errorf("%w: %w", missing, end)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-c.closing:
		}
	}
}

// errConnecting is why a node can't vote whose first connection is being made.
var errConnecting = errors.New("not connected yet")

// withoutQuorum returns which nodes of a group can't vote now, or nil if enough can in each group.
func (c *Client) withoutQuorum() *QuorumError {
	for g := range c.groups {
		for _, nodes := range c.mux.Sets(g) {
			e := &QuorumError{Need: len(nodes)/2 + 1, did: "can vote"}
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
	}
	return nil
}

// quorumReachable is called after each change of a node's state that leaves a quorum reachable. No
// other change can make a quorum able to vote.
func (c *Client) quorumReachable(group int) {
	c.groups[group].outage.WakeNext()
	c.nodesChanged.notify()
}

// broadcast wakes all goroutines that wait for the next event. The zero value is ready.
type broadcast struct {
	mu   sync.Mutex
	wake chan struct{} // closed by the next event; nil: nobody waits. Guarded by mu
}

// next returns a channel that the next event closes.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return b.wake
}

// notify reports an event. It does not block.
func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

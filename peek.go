package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// KeyStatus is who holds a key, as Peek has found it.
type KeyStatus struct {
	// Key is without the prefix.
	Key string
	// Held: a quorum of nodes has the key for the same holder; while the fleet moves, of either
	// layout.
	Held bool
	// Owner is Config.Owner of the Client that holds the key, which may be this one. It is empty if
	// the key is not held, if its holder has no owner, and if a program without owners holds it.
	Owner string
	// Left is how long the key stays held unless it is extended or released; 0 if it is not held.
	// For a key that never expires it is the longest Duration.
	Left time.Duration
	// Nodes is how many nodes have the key for the same holder. It may be above 0 for a key that is
	// not held. Such a key is about to be held, or released, or a node has lost it.
	Nodes int
	// Waiting is how many processes stand in the line for the key, or did so and have it now.
	Waiting int
}

// Peek returns who holds each of these keys, in their order. It is for people and dashboards: what
// it returns may be over by then, so never decide by it whether to use a resource. Only a lease
// says that. Peek counts as no attempt. A key whose value is not a string counts as not held.
//
// Peek reads on all nodes at once, in one round trip for each 1,000 different keys, and changes
// nothing. It waits for a node for NodeTimeout, and that long for each 1,000 keys. Only nodes that
// vote are asked. A quarantined node may have forgotten locks, so it counts as one that has not
// answered. If fewer than a quorum have answered, the error is a *QuorumError. Its Granted is how
// many have: errors.Is finds ErrNoQuorum, and ctx's error if ctx ended. If ctx ended before the
// nodes were asked, the error is ctx's alone. The other errors are ErrClosed and ErrInvalid, as of
// TryAcquireAll. At most four calls ask at a time, and further calls wait.
func (c *Client) Peek(ctx context.Context, keys []string) ([]KeyStatus, error) {
	different, _, err := c.validateCall(ctx, stats.Try, keys, nil)
	if err != nil {
		return nil, err
	}
	if c.locker.IsClosing() {
		return nil, ErrClosed
	}
	asked, err := c.locker.Mux.Peek(ctx, different)
	if err != nil {
		return nil, prefix.Errorf("%w", err)
	}
	for _, nodes := range asked.Sets() {
		switch unheard := missingQuorum("answered", nodes); {
		case unheard == nil:
		case c.locker.IsClosing():
			return nil, prefix.Errorf("%w: %w", ErrClosed, unheard)
		case ctx.Err() != nil:
			return nil, prefix.Errorf("%w: %w", unheard, ctx.Err())
		default:
			return nil, unheard
		}
	}
	all := make([]KeyStatus, len(keys))
	for i, key := range keys {
		h := asked.Count(key)
		all[i] = KeyStatus{
			Key: key, Held: h.Held, Owner: ids.OwnerOf(h.Token), Left: h.Left, Nodes: h.Nodes,
			Waiting: h.Waiting,
		}
	}
	return all, nil
}

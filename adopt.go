package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// Keep ends the lease but not its keys: they stay on the nodes for d from now, then they expire.
// Until then nobody can acquire them, not even this Client, and no call frees them. Use it for what
// must not happen again for a while, such as a message that was handled. Or hand the keys over: who
// has the Handle of the lease can take them by Adopt.
//
// The lease is over before anything is sent, whatever becomes of Keep: Err and the cause of its
// Context are ErrKept, and OnLost is not called. Then Release does nothing, and neither does Close.
// Keep asks all nodes, and is repeated for a node that did not answer. It returns nil when a quorum
// keeps the keys. To call it again is to wait for that again. d counts by the clocks of the nodes,
// and never brings the end of a key nearer: for a short d, acquire with a short WithTTL.
//
// d is at most 90 days. The restart guard covers the first MaxTTL of it. After that, one restart
// may free keys that only a quorum kept, and restarts of a majority free all: nobody puts kept keys
// back.
//
// The errors:
//
//   - ErrNoQuorum: it is not confirmed that a quorum keeps the keys. The error says how many nodes
//     do. The other nodes may follow, or have the keys until the lease would have ended.
//   - ErrLost, ErrExpired: a quorum did not have the lease any more, or it was over before.
//   - ErrReleased, ErrClosed: the lease was over before.
//   - ErrInvalid: d is below 10 ms or above 90 days. The lease lasts.
//
// If ctx ended first, errors.Is finds its error too. If that was before the call, the lease lasts.
func (l *Lease) Keep(ctx context.Context, d time.Duration) error {
	if err := l.validateExtension(ctx, "Keep", d); err != nil {
		return err
	}
	return l.inner().Keep(ctx, d)
}

// Handle returns a text with which Adopt takes the keys when Keep has ended the lease. It is a
// secret: who has it and can reach the nodes can take them. It has the keys, the Token and the
// fence, and nothing of Config. It may be asked for at any time, before Keep too.
func (l *Lease) Handle() string { return of(l, (*locker.Lease).Handle) }

// Adopt takes the keys of a lease that Keep has ended, maybe in another process, under a lease of
// its own, in one round trip. Nobody else has the keys in between. If several adopt them, one gets
// them. The Client needs the same nodes and Prefix, and may list the nodes in another order.
//
// On the nodes the keys last as long as Keep asked for, or for the new lease's TTL if that is
// longer. If this process dies, nobody can take them until then. Release frees them. If the call
// fails, it gives back what it took, in the background if nodes do not answer.
//
// With WithFencing the fence is above that of the former lease, whose late writes are refused then.
//
// The errors are those of TryAcquire. ErrHeld: another has adopted the keys, or Keep was not called
// or has reached no node. ErrExpired: too few nodes have the keys to say that nobody had them in
// between. ErrInvalid: the handle can't be read, or is of another Prefix.
func (c *Client) Adopt(ctx context.Context, handle string, opts ...Option) (*Lease, error) {
	h, ok := ids.ParseHandle(handle, c.cfg.Prefix)
	if !ok {
		return nil, c.countInvalid(stats.Try, invalid("the handle is damaged, or of a client with "+
			"another Config.Prefix: give what Lease.Handle returned"), 1)
	}
	keys, o, err := c.validateCall(ctx, stats.Try, h.Keys, opts)
	if err != nil {
		return nil, c.countInvalid(stats.Try, err, 1)
	}
	h.Keys = keys
	return result(c.locker.Adopt(ctx, &h, &o))
}

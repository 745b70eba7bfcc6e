package lockpipe

import (
	"context"
	"errors"
	"math"

	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// Elect campaigns for key, and runs fn while it leads. A campaign waits for key as Acquire does. Of
// all calls for the same key, in all processes, the one that holds its lease leads. The client
// extends the lease for as long as fn runs. So a leader that hangs leads until its process ends,
// unless WithAutoExtend gives a limit. If the leader dies, another process takes over when the TTL
// runs out: choose a short TTL by WithTTL. With WithFencing each term has a new fence.
//
// The context of fn has the values and the deadline of ctx. It ends when ctx or the lease ends, or
// when Close begins, and its cause says why, as for Lease.Bind. fn must return then: Close waits
// for it, and releases the lease only after that. After a loss, ErrLost or ErrExpired, another
// process may lead. Elect campaigns again, but not before fn has returned, so that its own terms
// never overlap. What fn returns after a loss is dropped, nil too: nobody knows whether its last
// work was protected. To end Elect from within at any time, cancel ctx.
//
// If fn returns while it leads, Elect releases the lease and returns the error of fn, also nil. The
// next leader need not wait for the TTL. If fn panics, Elect releases the lease, and the panic
// continues. If fn ends the lease itself, by Release or Keep, that ends its lead, and Elect returns
// the error of fn. If the release was not confirmed, Elect joins its error.
//
// If ctx ends during a campaign, the error is that of Acquire: errors.Is finds ctx's error, and
// mostly ErrHeld or ErrNoQuorum. ErrClosed and ErrInvalid end Elect too. A campaign has no limit of
// attempts, so WithMaxAttempts is ErrInvalid. Missing nodes end no campaign, and neither does
// ErrOverloaded: Elect tries again after the time of WithRetryDelay, at least a millisecond.
func (c *Client) Elect(ctx context.Context, key string,
	fn func(ctx context.Context, lease *Lease) error, opts ...Option,
) error {
	opts = append([]Option{WithAutoExtend(math.MaxInt64)}, opts...)
	o, err := c.applyOptions(opts)
	if err == nil && o.MaxAttempts > 0 {
		err = invalid("WithMaxAttempts(%d): Elect campaigns until ctx ends: leave the option out",
			o.MaxAttempts)
	}
	if err != nil {
		return c.countInvalid(stats.Wait, err, 1)
	}
	keys := [1]string{key}
	for {
		l, err := c.do(ctx, keys[:], fn, opts)
		switch end := l.Err(); {
		case errors.Is(end, ErrLost), errors.Is(end, ErrExpired):
		case l == nil && errors.Is(err, ErrOverloaded):
			if end := c.calls.Pause(ctx, &o, nil); end != nil {
				if !errors.Is(err, end) {
					err = prefix.Errorf("%w: %w", err, end)
				}
				return err
			}
		default:
			return err
		}
	}
}

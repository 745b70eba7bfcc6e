package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/prefix"
)

// Extend gives the lease a new TTL from now on, longer or shorter than what is left. With
// WithAutoExtend the lease still ends when maxHold has passed, and later automatic extensions use
// this ttl too. A node that lost the keys, or never had them, gets them, but does not count for
// this extension. Concurrent calls on one lease take turns. After nil the lease is valid until
// Until.
//
// A shorter ttl ends the lease sooner, but not the keys on the nodes. The client deletes them when
// the lease ends. If the process crashes before that, or can't reach a node, the keys last there
// for the longer time that an earlier call asked for.
//
// The errors:
//
//   - ErrNoQuorum: the extension is not confirmed. The lease is valid until Until, which a shorter
//     ttl may have brought nearer. Try again.
//   - ErrLost: a quorum does not have the lease any more, and it is over.
//   - ErrExpired, ErrReleased, ErrClosed, ErrKept: the lease was over before.
//   - ErrInvalid: ttl is below 10 ms or above Config.MaxTTL.
//
// If ctx ended first, errors.Is finds its error too.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.validateExtension(ctx, "Extend", ttl); err != nil {
		return err
	}
	return l.inner().Extend(ctx, ttl.Truncate(time.Millisecond))
}

// validateExtension checks the arguments of the method with this name. It also returns ctx's error
// if the lease lasts.
func (l *Lease) validateExtension(ctx context.Context, name string, ttl time.Duration) error {
	switch {
	case l.inner().IsZero():
		return ErrReleased
	case ctx == nil:
		return errNilContext
	}
	if err := checkTTL(name, ttl, l.inner().MaxTTL()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil && l.Err() == nil {
		return prefix.Errorf("%w", err)
	}
	return nil
}

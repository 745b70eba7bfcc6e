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
	case l.isZero():
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

// Keep ends the lease but not its keys: they stay on the nodes for at least d from now, then they
// expire. Until then nobody can acquire them, not even this Client, and no call frees them. Use it
// for what must not happen again for a while: a job that runs once an hour, a message that was
// handled.
//
// d is at most Config.MaxTTL. A node that may have forgotten keys does not vote for MaxTTL either,
// so set MaxTTL to the longest d and no longer.
//
// After nil the lease is over. Err and the cause of its Context are ErrKept, and OnLost is not
// called. Release does nothing, and neither does Close: the keys outlast the process. Calls that
// wait for the keys wait until they expire. A node that loses its data does not get the keys back.
//
// d counts by the clocks of the nodes. Keep never brings the end of a key nearer: if d is shorter
// than what the key has left on a node, it lasts there for that longer time. So for a short d,
// acquire the lease with a short WithTTL.
//
// The errors:
//
//   - ErrNoQuorum: it is not confirmed that the keys stay. The lease is not kept: it is valid until
//     Until as before, with its automatic extension, and its end deletes the keys. Try again, or
//     Release. If the process dies before, nodes may have the keys for d.
//   - ErrLost: a quorum does not have the lease any more, and it is over.
//   - ErrExpired, ErrReleased, ErrClosed, ErrKept: the lease was over before. This call keeps
//     nothing.
//   - ErrInvalid: d is below 10 ms or above Config.MaxTTL.
//
// If ctx ended first, errors.Is finds its error too, and the lease is not kept.
func (l *Lease) Keep(ctx context.Context, d time.Duration) error {
	if err := l.validateExtension(ctx, "Keep", d); err != nil {
		return err
	}
	ttl := d.Truncate(time.Millisecond)
	if ttl < d {
		ttl += time.Millisecond // MaxTTL is in whole milliseconds
	}
	return l.inner().Keep(ctx, ttl)
}

package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe"
)

// Caller is one caller of the Client on a seat, whichever that is. It has one call or lease at a
// time, and is for one goroutine.
type Caller struct {
	mover *Mover
	seat  int

	using     *member // nil without a call or a lease
	releasing time.Time
}

// NewCaller returns a caller of the Client on a seat, from 0.
func (m *Mover) NewCaller(seat int) *Caller { return &Caller{mover: m, seat: seat} }

// Acquire waits for a lock of the Client that is on the seat now.
func (c *Caller) Acquire(ctx context.Context, key string, opts ...lockpipe.Option) (*lockpipe.Lease,
	error,
) {
	c.leave()
	c.using = c.mover.enter(c.seat)
	called := time.Now()
	lease, err := c.using.client.Acquire(ctx, key, opts...)
	if err != nil {
		c.leave()
	}
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		c.mover.recordAcquire(time.Since(called), err == nil)
	}
	return lease, err
}

// Releases notes that the caller is about to release its lease.
func (c *Caller) Releases() {
	if c.releasing.IsZero() {
		c.releasing = time.Now()
	}
}

// Released notes how a release ended. If it was not confirmed and the lease is valid, the caller
// may release again.
func (c *Caller) Released(err error, until time.Time) {
	if errors.Is(err, lockpipe.ErrNoQuorum) && time.Now().Before(until) {
		return
	}
	c.mover.recordRelease(time.Since(c.releasing), err == nil)
	c.leave()
}

// leave leaves the Client that the caller used, if there is one.
func (c *Caller) leave() {
	if c.using != nil {
		c.mover.leave(c.using)
		c.using = nil
	}
	c.releasing = time.Time{}
}

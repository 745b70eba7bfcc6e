package lockpipe

import "context"

// Bind returns a context with the values and the deadline of ctx, which is cancelled when ctx or
// the lease ends. context.Cause returns the cause of the one that ended first: that of ctx, or how
// the lease ended, as Lease.Err does. Run work for a request under it that must stop without the
// lock. Like Context, it reads the clock when its Err is called.
//
// There is nothing to cancel: the first of the two ends frees what Bind made. It takes no
// goroutine, unless the type of ctx is not one of package context. If you bind often while one
// lease lasts, give Bind contexts that end. If ctx is nil, the returned context is over, and its
// cause is ErrInvalid.
func (l *Lease) Bind(ctx context.Context) context.Context {
	if ctx == nil {
		over, cancel := context.WithCancelCause(context.Background())
		cancel(errNilContext)
		return over
	}
	bound, unbind := l.bind(ctx)
	context.AfterFunc(bound.Context, unbind) // else it would take memory until the lease ends
	return bound
}

// bind returns the context of Bind. unbind ends it, and frees what the lease's context has of it.
func (l *Lease) bind(ctx context.Context) (bound *leaseBoundContext, unbind func()) {
	inner, cancel := context.WithCancelCause(ctx)
	bound = &leaseBoundContext{inner, l, cancel}
	over := l.Context()
	stop := context.AfterFunc(over, func() { cancel(context.Cause(over)) })
	_ = bound.Err() // if the lease is over, so is the context
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// leaseBoundContext reads the clock before it says that it has not ended, as the context of the
// lease does.
type leaseBoundContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

func (c *leaseBoundContext) Err() error {
	if end := c.lease.Err(); end != nil {
		c.cancel(end)
	}
	return c.Context.Err()
}

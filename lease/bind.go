package lease

import "context"

// Bind returns a context with the values and the deadline of ctx, which is cancelled when ctx or
// the term ends. Its cause is that of the one that ended first. unbind ends it, and frees what the
// term's context has of it: it must be called.
func (t *Term) Bind(ctx context.Context) (bound context.Context, unbind func()) {
	inner, cancel := context.WithCancelCause(ctx)
	bound = &boundContext{inner, t, cancel}
	over := t.Context()
	stop := context.AfterFunc(over, func() { cancel(context.Cause(over)) })
	_ = bound.Err() // if the term is over, so is the context
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// boundContext reads the clock before it says that it has not ended, as the context of the term
// does.
type boundContext struct {
	context.Context
	term   *Term
	cancel context.CancelCauseFunc
}

func (c *boundContext) Err() error {
	if end := c.term.Err(); end != nil {
		c.cancel(end)
	}
	return c.Context.Err()
}

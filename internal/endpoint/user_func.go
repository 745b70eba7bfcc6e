package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// userFunc calls one of the user's functions for one node. It has one owner at a time.
//
// The function runs on a goroutine of its own, because nothing ends a call that ignores its
// context. The owner abandons such a call, and makes no other until that has returned. So there is
// one such goroutine at most. It ends when the call returns, and discards a result that is late.
type userFunc[T any] struct {
	name    string       // of the function, for errors
	mayHang string       // what may hang, for errors: the name, and perhaps more
	node    string       // for the log
	logger  *slog.Logger // nil: another one of the same function logs its panics
	discard func(T)
	// secret: the value of a panic may be a secret, and is not shown.
	secret bool

	abandoned   *userCall[T] // the last call that was abandoned; nil before
	panicLogged bool         // the stack of a panic was logged
}

// userCall is one call.
type userCall[T any] struct {
	ended     time.Time          // when its context ended; set by the owner
	result    chan userResult[T] // without a buffer: the owner takes it, or has left
	abandoned chan struct{}      // closed when the owner has abandoned the call
	returned  chan struct{}      // closed when the call is over and its result taken or discarded
}

// userResult is the result of a call.
type userResult[T any] struct {
	value T
	err   error
	stack []byte // of a panic
}

// call runs f, at most until DialGrace after the end of ctx.
func (o *userFunc[T]) call(ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	var none T
	if o.abandoned != nil {
		select {
		case <-o.abandoned.returned:
		default:
			return none, o.hangError()
		}
	}
	c := &userCall[T]{
		result:    make(chan userResult[T]),
		abandoned: make(chan struct{}),
		returned:  make(chan struct{}),
	}
	go o.run(ctx, c, f)
	select {
	case r := <-c.result:
		return o.takeResult(r)
	case <-ctx.Done():
		c.ended = time.Now()
	}
	late := time.NewTimer(DialGrace)
	defer late.Stop()
	select {
	case r := <-c.result:
		return o.takeResult(r)
	case <-late.C:
		close(c.abandoned)
		o.abandoned = c
		return none, o.hangError()
	}
}

// takeResult takes the result of a call that returned in time.
func (o *userFunc[T]) takeResult(r userResult[T]) (T, error) {
	if r.stack != nil && !o.panicLogged && o.logger != nil {
		o.panicLogged = true
		o.logger.Error("lockpipe: "+o.name+" panicked", slog.String("node", o.node),
			slog.Any("error", r.err), slog.String("stack", string(r.stack)))
	}
	return r.value, r.err
}

// hangError returns the error while a call that was abandoned has not returned.
func (o *userFunc[T]) hangError() error {
	return fmt.Errorf("%s has not returned, although its context ended at %s",
		o.mayHang, o.abandoned.ended.Format(time.RFC3339))
}

// run makes the call. It reads only fields that do not change.
func (o *userFunc[T]) run(
	ctx context.Context, c *userCall[T], f func(context.Context) (T, error),
) {
	defer close(c.returned)
	r := userResult[T]{err: fmt.Errorf("%s ended its goroutine", o.name)}
	defer func() {
		if p := recover(); p != nil {
			r = userResult[T]{err: fmt.Errorf("%s panicked: %v", o.name, p), stack: debug.Stack()}
			if o.secret {
				r.err = fmt.Errorf("%s panicked; the log has the stack", o.name)
			}
		}
		select {
		case c.result <- r:
		case <-c.abandoned:
			if r.err == nil {
				o.discard(r.value)
			}
		}
	}()
	value, err := f(ctx)
	r = userResult[T]{value: value, err: err}
}

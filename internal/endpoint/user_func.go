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
// one such call at most. A result that is late is discarded.
type userFunc[T any] struct {
	name    string       // of the function, for errors
	mayHang string       // what may hang, for errors: the name, and perhaps more
	node    string       // for the log
	logger  *slog.Logger // nil: another one of the same function logs its panics
	discard func(T)
	// secret: the value of a panic may be a secret, and is not shown.
	secret bool

	returned    chan struct{} // closed when the call that was abandoned last has returned, or nil
	ended       time.Time     // when the context of that call ended
	panicLogged bool          // the stack of a panic was logged
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
	if o.returned != nil {
		select {
		case <-o.returned:
		default:
			return none, o.hangError()
		}
	}
	result := make(chan userResult[T], 1)
	go o.run(ctx, result, f)
	select {
	case r := <-result:
		return o.takeResult(r)
	case <-ctx.Done():
		o.ended = time.Now()
	}
	select {
	case r := <-result:
		return o.takeResult(r)
	case <-time.After(DialGrace):
	}
	returned := make(chan struct{})
	o.returned = returned
	go func() {
		defer close(returned)
		if late := <-result; late.err == nil {
			o.discard(late.value)
		}
	}()
	return none, o.hangError()
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
		o.mayHang, o.ended.Format(time.RFC3339))
}

// run makes the call. It reads only fields that do not change.
func (o *userFunc[T]) run(
	ctx context.Context, result chan<- userResult[T], f func(context.Context) (T, error),
) {
	r := userResult[T]{err: fmt.Errorf("%s ended its goroutine", o.name)}
	defer func() {
		if p := recover(); p != nil {
			r = userResult[T]{err: fmt.Errorf("%s panicked: %v", o.name, p), stack: debug.Stack()}
			if o.secret {
				r.err = fmt.Errorf("%s panicked; the log has the stack", o.name)
			}
		}
		result <- r
	}()
	value, err := f(ctx)
	r = userResult[T]{value: value, err: err}
}

// Package otellock traces the calls of a lockpipe.Client with OpenTelemetry: one span for the time
// in which a call waits for its lock, and one for the time in which the lock is held.
//
// The spans:
//
//   - lockpipe.acquire lasts from the call until it has a lease or an error.
//   - lockpipe.hold lasts from then until the lease ends. A lease that ends with ErrLost or
//     ErrExpired adds the event lockpipe.lost.
//
// Both are children of the span in the ctx of the call. README.md lists their attributes. Names of
// keys are in no span, unless Config.KeyNames asks for them.
package otellock

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// scopeName is the instrumentation scope of the spans.
const scopeName = "github.com/lockpipe/lockpipe/adapters/otel"

// Config says how to trace. The zero value is a good default.
type Config struct {
	// TracerProvider makes the spans; nil for the global one of package otel.
	TracerProvider trace.TracerProvider
	// KeyNames adds the names of up to ten keys of each call, and the whole text of errors, which
	// names keys and nodes. Without it, errors are recorded by their kind.
	KeyNames bool
}

// Client is a lockpipe.Client whose acquiring calls make spans. Wrap makes it. All other methods
// are those of the Client inside. It is safe for concurrent use.
type Client struct {
	*lockpipe.Client
	tracer   trace.Tracer
	keyNames bool
}

// Wrap returns a Client that traces the calls that go through it. The caller closes client, or the
// Client that Wrap returns, which is the same.
func Wrap(client *lockpipe.Client, cfg Config) *Client {
	provider := cfg.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return &Client{client, provider.Tracer(scopeName), cfg.KeyNames}
}

// TryAcquire is TryAcquire of lockpipe.Client, with spans.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	return c.acquire(ctx, "try", []string{key}, func() (*lockpipe.Lease, error) {
		return c.Client.TryAcquire(ctx, key, opts...)
	})
}

// TryAcquireAll is TryAcquireAll of lockpipe.Client, with spans.
func (c *Client) TryAcquireAll(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	return c.acquire(ctx, "try", keys, func() (*lockpipe.Lease, error) {
		return c.Client.TryAcquireAll(ctx, keys, opts...)
	})
}

// Acquire is Acquire of lockpipe.Client, with spans.
func (c *Client) Acquire(ctx context.Context, key string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	return c.acquire(ctx, "wait", []string{key}, func() (*lockpipe.Lease, error) {
		return c.Client.Acquire(ctx, key, opts...)
	})
}

// AcquireAll is AcquireAll of lockpipe.Client, with spans.
func (c *Client) AcquireAll(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	return c.acquire(ctx, "wait", keys, func() (*lockpipe.Lease, error) {
		return c.Client.AcquireAll(ctx, keys, opts...)
	})
}

// TryAcquireAny is TryAcquireAny of lockpipe.Client, with spans.
func (c *Client) TryAcquireAny(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	return c.acquire(ctx, "try", keys, func() (*lockpipe.Lease, error) {
		return c.Client.TryAcquireAny(ctx, keys, opts...)
	})
}

// AcquireAny is AcquireAny of lockpipe.Client, with spans.
func (c *Client) AcquireAny(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	return c.acquire(ctx, "wait", keys, func() (*lockpipe.Lease, error) {
		return c.Client.AcquireAny(ctx, keys, opts...)
	})
}

// Adopt is Adopt of lockpipe.Client, with spans. Only the second one has the number of keys.
func (c *Client) Adopt(ctx context.Context, handle string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	return c.acquire(ctx, "adopt", nil, func() (*lockpipe.Lease, error) {
		return c.Client.Adopt(ctx, handle, opts...)
	})
}

// acquire traces a call that returns one lease. A call without a ctx returns an error at once.
func (c *Client) acquire(ctx context.Context, call string, keys []string,
	acquire func() (*lockpipe.Lease, error),
) (*lockpipe.Lease, error) {
	if ctx == nil {
		return acquire()
	}
	span := c.start(ctx, acquireName, call, keys)
	l, err := acquire()
	c.endAcquire(span, l, err)
	c.hold(ctx, call, l)
	return l, err
}

// TryAcquireEach is TryAcquireEach of lockpipe.Client, with one span for all keys until the call
// returns, and one for each lease.
func (c *Client) TryAcquireEach(ctx context.Context, keys []string,
	opts ...lockpipe.Option,
) []lockpipe.Result {
	if ctx == nil {
		return c.Client.TryAcquireEach(ctx, keys, opts...)
	}
	span := c.start(ctx, acquireName, "each", keys)
	results := c.Client.TryAcquireEach(ctx, keys, opts...)
	c.endEach(span, results)
	traced := make(map[*lockpipe.Lease]bool, len(results)) // a key given twice has one lease
	for _, r := range results {
		if !traced[r.Lease] {
			traced[r.Lease] = true
			c.hold(ctx, "each", r.Lease)
		}
	}
	return results
}

// AcquireAsync is AcquireAsync of lockpipe.Client, with spans. The first one lasts until done is
// called.
func (c *Client) AcquireAsync(ctx context.Context, keys []string,
	done func(*lockpipe.Lease, error), opts ...lockpipe.Option,
) error {
	if ctx == nil || done == nil {
		return c.Client.AcquireAsync(ctx, keys, done, opts...)
	}
	span := c.start(ctx, acquireName, "async", keys)
	err := c.Client.AcquireAsync(ctx, keys, func(l *lockpipe.Lease, err error) {
		c.endAcquire(span, l, err)
		c.hold(ctx, "async", l)
		done(l, err)
	}, opts...)
	if err != nil {
		c.endAcquire(span, nil, err)
	}
	return err
}

// Do is Do of lockpipe.Client, with the spans of DoAll.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context) error,
	opts ...lockpipe.Option,
) error {
	if ctx == nil || fn == nil {
		return c.Client.Do(ctx, key, fn, opts...)
	}
	return c.DoAll(ctx, []string{key}, func(held context.Context, _ *lockpipe.Lease) error {
		return fn(held)
	}, opts...)
}

// DoAll is DoAll of lockpipe.Client, with spans. The context of fn has the span of the held lease,
// which ends when fn returns. If the lease was lost before that, the event lockpipe.lost is added
// then.
func (c *Client) DoAll(ctx context.Context, keys []string,
	fn func(ctx context.Context, lease *lockpipe.Lease) error, opts ...lockpipe.Option,
) error {
	if ctx == nil || fn == nil {
		return c.Client.DoAll(ctx, keys, fn, opts...)
	}
	waited := c.start(ctx, acquireName, "do", keys)
	granted := false
	err := c.Client.DoAll(ctx, keys, func(held context.Context, l *lockpipe.Lease) error {
		granted = true
		c.endAcquire(waited, l, nil)
		span := c.start(held, holdName, "do", keys)
		span.SetAttributes(fencedAttribute.Bool(l.Fence() != 0))
		defer func() { c.endHold(span, l.Err()) }()
		return fn(trace.ContextWithSpan(held, span), l)
	}, opts...)
	if !granted {
		c.endAcquire(waited, nil, err)
	}
	return err
}

// Elect is Elect of lockpipe.Client, with the spans of each campaign and of each term. A term may
// last for weeks. So the context of fn has the span in ctx, not that of the lease: what a leader
// does would else be one trace without an end.
func (c *Client) Elect(ctx context.Context, key string,
	fn func(ctx context.Context, lease *lockpipe.Lease) error, opts ...lockpipe.Option,
) error {
	if ctx == nil || fn == nil {
		return c.Client.Elect(ctx, key, fn, opts...)
	}
	keys := []string{key}
	campaign := c.start(ctx, acquireName, "elect", keys)
	err := c.Client.Elect(ctx, key, func(held context.Context, l *lockpipe.Lease) error {
		c.endAcquire(campaign, l, nil)
		c.hold(ctx, "elect", l)
		defer func() {
			if lost(l.Err()) {
				campaign = c.start(ctx, acquireName, "elect", keys)
			}
		}()
		return fn(held, l)
	}, opts...)
	if campaign.IsRecording() { // it ended without a term
		c.endAcquire(campaign, nil, err)
	}
	return err
}

// lost reports whether a lease that ended like this was lost by its holder.
func lost(end error) bool {
	return errors.Is(end, lockpipe.ErrLost) || errors.Is(end, lockpipe.ErrExpired)
}

// hold traces a lease until it ends, if the span is wanted.
func (c *Client) hold(ctx context.Context, call string, l *lockpipe.Lease) {
	if l == nil {
		return
	}
	span := c.start(ctx, holdName, call, l.Keys())
	if !span.IsRecording() {
		span.End()
		return
	}
	span.SetAttributes(fencedAttribute.Bool(l.Fence() != 0))
	held := l.Context()
	context.AfterFunc(held, func() { c.endHold(span, context.Cause(held)) })
}

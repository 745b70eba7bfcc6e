package otellock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	otellock "github.com/lockpipe/lockpipe/adapters/otel"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// traced is a Client whose spans go to memory, and the switches of its nodes.
type traced struct {
	*otellock.Client
	locks    *fake.Client
	exporter *tracetest.InMemoryExporter
	ctx      context.Context //nolint:containedctx // that of the test, with a span around all calls
	around   trace.SpanContext
}

// inBubble runs a test in a bubble, with a span around all calls.
func inBubble(t *testing.T, cfg otellock.Config, test func(t *testing.T, c *traced)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &traced{locks: fake.NewClient(t), exporter: tracetest.NewInMemoryExporter()}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.exporter))
		cfg.TracerProvider = provider
		c.Client = otellock.Wrap(c.locks.Client, cfg)
		ctx, span := provider.Tracer("test").Start(t.Context(), "around")
		c.ctx, c.around = ctx, span.SpanContext()
		test(t, c)
	})
}

// spans returns the spans that have ended since the last call, in the order of their ends.
func (c *traced) spans(t *testing.T) tracetest.SpanStubs {
	t.Helper()
	synctest.Wait()
	spans := c.exporter.GetSpans()
	c.exporter.Reset()
	for _, s := range spans {
		require.Equal(t, c.around.SpanID(), s.Parent.SpanID(), s.Name)
	}
	return spans
}

// one returns the only span that has ended since the last call.
func (c *traced) one(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	spans := c.spans(t)
	require.Len(t, spans, 1)
	require.Equal(t, name, spans[0].Name)
	return spans[0]
}

// attributes returns the attributes as Go values.
func attributes(all []attribute.KeyValue) map[string]any {
	values := make(map[string]any, len(all))
	for _, a := range all {
		values[string(a.Key)] = a.Value.AsInterface()
	}
	return values
}

// requireError wants a span with this status, and the error in an event.
func requireError(t *testing.T, span tracetest.SpanStub, text string) {
	t.Helper()
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: text}, span.Status)
	last := span.Events[len(span.Events)-1]
	require.Equal(t, "exception", last.Name)
	require.Equal(t, text, attributes(last.Attributes)["exception.message"])
}

// The goal: waiting and holding have a span each, which last as long, for each call.
func TestClient_SpansWaitingAndHolding(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		one := func(l *lockpipe.Lease, err error) *lockpipe.Lease {
			require.NoError(t, err)
			return l
		}
		fenced := lockpipe.WithFencing()
		for _, call := range []struct {
			name string
			keys int64
			make func() *lockpipe.Lease
		}{
			{"try", 1, func() *lockpipe.Lease { return one(c.TryAcquire(c.ctx, "a", fenced)) }},
			{"try", 2, func() *lockpipe.Lease {
				return one(c.TryAcquireAll(c.ctx, []string{"a", "b"}, fenced))
			}},
			{"wait", 1, func() *lockpipe.Lease { return one(c.Acquire(c.ctx, "a", fenced)) }},
			{"wait", 2, func() *lockpipe.Lease {
				return one(c.AcquireAll(c.ctx, []string{"a", "b"}, fenced))
			}},
			{"async", 2, func() *lockpipe.Lease {
				granted := make(chan *lockpipe.Lease)
				require.NoError(t, c.AcquireAsync(c.ctx, []string{"a", "b"},
					func(l *lockpipe.Lease, err error) { granted <- one(l, err) }, fenced))
				return <-granted
			}},
		} {
			c.locks.Hold("a")
			if call.name == "try" {
				c.locks.Free("a")
			} else {
				time.AfterFunc(time.Second, func() { c.locks.Free("a") })
			}
			begin := time.Now()
			l := call.make()
			granted := time.Now()
			span := c.one(t, "lockpipe.acquire")
			require.Equal(t, map[string]any{
				"lockpipe.call": call.name, "lockpipe.keys": call.keys,
				"lockpipe.outcome": "granted", "lockpipe.fenced": true,
			}, attributes(span.Attributes))
			require.Equal(t, granted.Sub(begin), span.EndTime.Sub(span.StartTime))
			require.Equal(t, codes.Unset, span.Status.Code)

			time.Sleep(3 * time.Second)
			require.NoError(t, l.Release(t.Context()))
			span = c.one(t, "lockpipe.hold")
			require.Equal(t, map[string]any{
				"lockpipe.call": call.name, "lockpipe.keys": call.keys,
				"lockpipe.outcome": "released", "lockpipe.fenced": true,
			}, attributes(span.Attributes))
			require.Equal(t, 3*time.Second, span.EndTime.Sub(span.StartTime).Truncate(time.Second))
			require.Empty(t, span.Events)
		}
	})
}

// The goal: a lease that was handed over is in the trace of the process that adopts it.
func TestAdopt_SpansItsLease(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		l, err := c.locks.TryAcquireAll(c.ctx, []string{"a", "b"})
		require.NoError(t, err)
		require.NoError(t, l.Keep(c.ctx, time.Hour))
		l, err = c.Adopt(c.ctx, l.Handle())
		require.NoError(t, err)
		span := c.one(t, "lockpipe.acquire")
		require.Equal(t, "adopt", attributes(span.Attributes)["lockpipe.call"])
		require.Equal(t, "granted", attributes(span.Attributes)["lockpipe.outcome"])
		require.NoError(t, l.Release(c.ctx))
		span = c.one(t, "lockpipe.hold")
		require.EqualValues(t, 2, attributes(span.Attributes)["lockpipe.keys"])
		require.Equal(t, "released", attributes(span.Attributes)["lockpipe.outcome"])
		_, err = c.Adopt(c.ctx, l.Handle())
		require.ErrorIs(t, err, lockpipe.ErrExpired)
		span = c.one(t, "lockpipe.acquire")
		require.Equal(t, "expired", attributes(span.Attributes)["lockpipe.outcome"])
		requireError(t, span, "lockpipe: lease expired")
	})
}

// The goal: a call for many keys has one span until it returns, and one for each lease.
func TestTryAcquireEach_SpansEachLease(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		c.locks.Hold("held")
		results := c.TryAcquireEach(c.ctx, []string{"a", "held", "b", "a"})
		span := c.one(t, "lockpipe.acquire")
		require.Equal(t, map[string]any{
			"lockpipe.call": "each", "lockpipe.keys": int64(4), "lockpipe.granted": int64(3),
		}, attributes(span.Attributes))
		require.Equal(t, codes.Unset, span.Status.Code)
		for _, r := range results {
			require.NoError(t, r.Lease.Release(t.Context()))
		}
		require.Len(t, c.spans(t), 2)

		c.locks.StopVotes()
		c.TryAcquireEach(c.ctx, []string{"a"})
		requireError(t, c.one(t, "lockpipe.acquire"), "lockpipe: no quorum")
	})
}

// The goal: the outcome of each failed call is the word of the metrics. A key that another holds is
// an outcome, and no error of a call that does not wait.
func TestClient_SpansFailures(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		c.locks.Hold("k")
		_, err := c.TryAcquire(c.ctx, "k")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		span := c.one(t, "lockpipe.acquire")
		require.Equal(t, "held", attributes(span.Attributes)["lockpipe.outcome"])
		require.Equal(t, codes.Unset, span.Status.Code)
		require.Empty(t, span.Events)

		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		_, err = c.Acquire(ctx, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		span = c.one(t, "lockpipe.acquire")
		require.Equal(t, "canceled", attributes(span.Attributes)["lockpipe.outcome"])
		require.Equal(t, time.Second, span.EndTime.Sub(span.StartTime))
		requireError(t, span, "lockpipe: held by another: context deadline exceeded")

		_, err = c.TryAcquire(c.ctx, "")
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		requireError(t, c.one(t, "lockpipe.acquire"), "lockpipe: invalid")
		require.ErrorIs(t, c.AcquireAsync(c.ctx, nil, func(*lockpipe.Lease, error) {}),
			lockpipe.ErrInvalid)
		requireError(t, c.one(t, "lockpipe.acquire"), "lockpipe: invalid")

		c.locks.StopVotes()
		_, err = c.TryAcquire(c.ctx, "free")
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		span = c.one(t, "lockpipe.acquire")
		require.Equal(t, map[string]any{
			"lockpipe.call": "try", "lockpipe.keys": int64(1),
			"lockpipe.outcome": "no_quorum", "lockpipe.nodes_without_vote": int64(3),
		}, attributes(span.Attributes))
		requireError(t, span, "lockpipe: no quorum")
		c.locks.StartVotes()

		require.NoError(t, c.Close(t.Context()))
		_, err = c.TryAcquire(c.ctx, "k")
		require.ErrorIs(t, err, lockpipe.ErrClosed)
		requireError(t, c.one(t, "lockpipe.acquire"), lockpipe.ErrClosed.Error())
	})
}

// The goal: the span of a lease that was lost or expired says so, at the time of its end. One that
// Close released is no error.
func TestClient_SpansLostLeases(t *testing.T) {
	for outcome, end := range map[string]error{
		"lost": lockpipe.ErrLost, "expired": lockpipe.ErrExpired, "closed": nil,
	} {
		inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
			opts := []lockpipe.Option{lockpipe.WithTTL(5 * time.Second)}
			if outcome == "lost" {
				opts = append(opts, lockpipe.WithAutoExtend(time.Hour))
			}
			l, err := c.Acquire(c.ctx, "secret", opts...)
			require.NoError(t, err)
			c.spans(t)
			if outcome == "closed" {
				require.NoError(t, c.Close(t.Context()))
			}
			c.locks.Hold("secret")
			<-l.Done()
			ended := time.Now()
			time.Sleep(time.Hour)
			span := c.one(t, "lockpipe.hold")
			require.Equal(t, ended, span.EndTime)
			require.Equal(t, map[string]any{
				"lockpipe.call": "wait", "lockpipe.keys": int64(1),
				"lockpipe.outcome": outcome, "lockpipe.fenced": false,
			}, attributes(span.Attributes))
			if end == nil {
				require.Empty(t, span.Events)
				return
			}
			requireError(t, span, end.Error())
			require.Equal(t, "lockpipe.lost", span.Events[0].Name)
			require.Equal(t, map[string]any{"lockpipe.outcome": outcome},
				attributes(span.Events[0].Attributes))
		})
	}
}

// The goal: Do has both spans, and what its function does belongs to the second one.
func TestDo_SpansItsFunction(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		failure := errors.New("failure of the work")
		err := c.Do(c.ctx, "k", func(ctx context.Context) error {
			require.Equal(t, "lockpipe.acquire", c.one(t, "lockpipe.acquire").Name)
			require.True(t, trace.SpanFromContext(ctx).IsRecording())
			time.Sleep(time.Second)
			return failure
		})
		require.ErrorIs(t, err, failure)
		span := c.one(t, "lockpipe.hold")
		require.Equal(t, "released", attributes(span.Attributes)["lockpipe.outcome"])
		require.Equal(t, time.Second, span.EndTime.Sub(span.StartTime))
		require.Equal(t, codes.Unset, span.Status.Code, "the work has a span of its own")

		err = c.Do(c.ctx, "k", func(ctx context.Context) error {
			c.locks.Hold("k")
			<-ctx.Done()
			return nil
		}, lockpipe.WithAutoExtend(time.Hour))
		require.ErrorIs(t, err, lockpipe.ErrLost)
		requireError(t, c.spans(t)[1], lockpipe.ErrLost.Error())

		c.locks.StopVotes()
		err = c.Do(c.ctx, "free", func(context.Context) error { return nil },
			lockpipe.WithMaxAttempts(1))
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		requireError(t, c.one(t, "lockpipe.acquire"), "lockpipe: no quorum")
		require.ErrorIs(t, c.Do(c.ctx, "k", nil), lockpipe.ErrInvalid)
	})
}

// The goal: the loss of an outer lease is no loss of an inner one.
func TestDo_SpansOnlyItsOwnLoss(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		_ = c.Do(c.ctx, "outer", func(ctx context.Context) error {
			c.locks.Hold("outer")
			return c.Do(trace.ContextWithSpanContext(ctx, c.around), "inner",
				func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}, lockpipe.WithAutoExtend(time.Hour))
		}, lockpipe.WithAutoExtend(time.Hour))
		spans := c.spans(t)
		require.Len(t, spans, 4)
		require.Equal(t, "released", attributes(spans[2].Attributes)["lockpipe.outcome"])
		require.Equal(t, "lost", attributes(spans[3].Attributes)["lockpipe.outcome"])
	})
}

// The goal: an inner lease that expires before the outer one does so in its span too.
func TestDo_SpansAnExpiryInsideOfAnother(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		_ = c.Do(c.ctx, "outer", func(ctx context.Context) error {
			ctx = trace.ContextWithSpanContext(ctx, c.around)
			return c.Do(ctx, "inner", func(context.Context) error {
				time.Sleep(150 * time.Millisecond)
				return nil
			}, lockpipe.WithTTL(30*time.Millisecond))
		}, lockpipe.WithTTL(100*time.Millisecond))
		for _, span := range c.spans(t) {
			if span.Name == "lockpipe.hold" {
				require.Equal(t, "expired", attributes(span.Attributes)["lockpipe.outcome"])
			}
		}
	})
}

func TestDoAll_SpansItsLease(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		err := c.DoAll(c.ctx, []string{"a", "b"},
			func(ctx context.Context, l *lockpipe.Lease) error {
				require.True(t, trace.SpanFromContext(ctx).IsRecording())
				require.Equal(t, "lockpipe.acquire", c.one(t, "lockpipe.acquire").Name)
				return l.Keep(ctx, time.Second)
			}, lockpipe.WithFencing())
		require.NoError(t, err)
		all := attributes(c.one(t, "lockpipe.hold").Attributes)
		require.Equal(t, "kept", all["lockpipe.outcome"])
		require.Equal(t, true, all["lockpipe.fenced"])
		require.EqualValues(t, 2, all["lockpipe.keys"])
		require.ErrorIs(t, c.DoAll(c.ctx, []string{"a"}, nil), lockpipe.ErrInvalid)
	})
}

// The goal: each campaign and each term have a span. The function has that of the caller. A
// campaign that ends without a term has an error.
func TestElect_SpansCampaignsAndTerms(t *testing.T) {
	inBubble(t, otellock.Config{}, func(t *testing.T, c *traced) {
		terms := 0
		err := c.Elect(c.ctx, "k", func(ctx context.Context, l *lockpipe.Lease) error {
			require.Equal(t, c.around, trace.SpanContextFromContext(ctx))
			if terms++; terms == 2 {
				span := c.one(t, "lockpipe.acquire")
				require.GreaterOrEqual(t, span.EndTime.Sub(span.StartTime), time.Second)
				return nil
			}
			require.Equal(t, map[string]any{
				"lockpipe.call": "elect", "lockpipe.keys": int64(1),
				"lockpipe.outcome": "granted", "lockpipe.fenced": true,
			}, attributes(c.one(t, "lockpipe.acquire").Attributes))
			c.locks.Hold("k")
			<-ctx.Done()
			time.AfterFunc(time.Second, func() { c.locks.Free("k") })
			requireError(t, c.one(t, "lockpipe.hold"), lockpipe.ErrLost.Error())
			return nil
		}, lockpipe.WithFencing())
		require.NoError(t, err)
		span := c.one(t, "lockpipe.hold")
		require.Equal(t, "released", attributes(span.Attributes)["lockpipe.outcome"])

		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		c.locks.Hold("k")
		err = c.Elect(ctx, "k", func(context.Context, *lockpipe.Lease) error { return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		span = c.one(t, "lockpipe.acquire")
		require.Equal(t, "canceled", attributes(span.Attributes)["lockpipe.outcome"])
		require.ErrorIs(t, c.Elect(c.ctx, "k", nil), lockpipe.ErrInvalid)
	})
}

// The goal: no span names a key, unless the configuration asks for it.
func TestConfig_KeyNames(t *testing.T) {
	for _, named := range []bool{false, true} {
		inBubble(t, otellock.Config{KeyNames: named}, func(t *testing.T, c *traced) {
			c.locks.Hold("secret")
			keys := []string{"secret", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}
			ctx, cancel := context.WithTimeout(c.ctx, time.Second)
			defer cancel()
			_, err := c.AcquireAll(ctx, keys)
			require.Error(t, err)
			span := c.one(t, "lockpipe.acquire")
			if !named {
				require.NotContains(t, attributes(span.Attributes), "lockpipe.key_names")
				requireError(t, span, "lockpipe: held by another: context deadline exceeded")
				return
			}
			require.Equal(t, keys[:10], attributes(span.Attributes)["lockpipe.key_names"])
			requireError(t, span, err.Error())
			require.ErrorContains(t, err, "secret")
		})
	}
}

// The goal: calls work without a ctx, which is ErrInvalid, and without a provider.
func TestWrap_ChangesNoCall(t *testing.T) {
	t.Parallel()
	locks := fake.NewClient(t)
	c := otellock.Wrap(locks.Client, otellock.Config{})
	var none context.Context
	_, err := c.Acquire(none, "k")
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.ErrorIs(t, c.TryAcquireEach(none, []string{"k"})[0].Err, lockpipe.ErrInvalid)
	require.ErrorIs(t, c.AcquireAsync(none, []string{"k"}, nil), lockpipe.ErrInvalid)
	require.ErrorIs(t, c.Do(none, "k", nil), lockpipe.ErrInvalid)
	l, err := c.Acquire(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

package otellock

import (
	"context"
	"errors"
	"strings"

	"github.com/lockpipe/lockpipe"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// The names of the spans and of the event.
const (
	acquireName = "lockpipe.acquire"
	holdName    = "lockpipe.hold"
	lostName    = "lockpipe.lost"
)

// The attributes. README.md says what they mean.
const (
	callAttribute         = attribute.Key("lockpipe.call")
	keysAttribute         = attribute.Key("lockpipe.keys")
	keyNamesAttribute     = attribute.Key("lockpipe.key_names")
	outcomeAttribute      = attribute.Key("lockpipe.outcome")
	grantedAttribute      = attribute.Key("lockpipe.granted")
	fencedAttribute       = attribute.Key("lockpipe.fenced")
	nodesWithoutAttribute = attribute.Key("lockpipe.nodes_without_vote")
)

// What bounds a span: a call may have 65,536 keys of a megabyte.
const (
	maxKeyNames      = 10
	maxKeyNameLength = 64
)

// start starts a span as a child of that in ctx.
func (c *Client) start(ctx context.Context, name, call string, keys []string) trace.Span {
	_, span := c.tracer.Start(ctx, name)
	if !span.IsRecording() {
		return span
	}
	span.SetAttributes(callAttribute.String(call), keysAttribute.Int(len(keys)))
	if c.keyNames {
		names := make([]string, 0, maxKeyNames)
		for _, key := range keys[:min(len(keys), maxKeyNames)] {
			shown := key[:min(len(key), maxKeyNameLength)]
			names = append(names, strings.ToValidUTF8(shown, "\uFFFD"))
		}
		span.SetAttributes(keyNamesAttribute.StringSlice(names))
	}
	return span
}

// endAcquire ends the span of a call that waited. l is nil if the lease is not known.
func (c *Client) endAcquire(span trace.Span, l *lockpipe.Lease, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(outcomeAttribute.String(acquireOutcome(err)))
	if l != nil {
		span.SetAttributes(fencedAttribute.Bool(l.Fence() != 0))
	}
	var quorum *lockpipe.QuorumError
	if errors.As(err, &quorum) {
		span.SetAttributes(nodesWithoutAttribute.Int(quorum.Unknown))
	}
	c.record(span, err)
}

// endEach ends the span of a TryAcquireEach.
func (c *Client) endEach(span trace.Span, results []lockpipe.Result) {
	defer span.End()
	granted := 0
	var failure error // the first one that is not only a key that another holds
	for _, r := range results {
		if r.Err == nil {
			granted++
		} else if failure == nil && acquireOutcome(r.Err) != "held" {
			failure = r.Err
		}
	}
	span.SetAttributes(grantedAttribute.Int(granted))
	c.record(span, failure)
}

// endHold ends the span of a lease that ended with end. If end is nil, Do releases the lease now.
func (c *Client) endHold(span trace.Span, end error) {
	defer span.End()
	outcome := "released"
	switch {
	case errors.Is(end, lockpipe.ErrLost):
		outcome = "lost"
	case errors.Is(end, lockpipe.ErrExpired):
		outcome = "expired"
	case errors.Is(end, lockpipe.ErrClosed):
		outcome = "closed"
	case errors.Is(end, lockpipe.ErrKept):
		outcome = "kept"
	}
	span.SetAttributes(outcomeAttribute.String(outcome))
	if outcome == "lost" || outcome == "expired" {
		span.AddEvent(lostName, trace.WithAttributes(outcomeAttribute.String(outcome)))
		c.record(span, end)
	}
}

// record records an error, unless all that it says is that another holds the key: that is what a
// try is for.
func (c *Client) record(span trace.Span, err error) {
	if err == nil || acquireOutcome(err) == "held" {
		return
	}
	if !c.keyNames {
		err = withoutNames(err)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}

// acquireOutcome returns the word that the metrics of lockpipe have for the outcome of a call.
func acquireOutcome(err error) string {
	switch {
	case err == nil:
		return "granted"
	case errors.Is(err, lockpipe.ErrInvalid):
		return "invalid"
	case errors.Is(err, lockpipe.ErrClosed):
		return "closed"
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return "canceled"
	case errors.Is(err, lockpipe.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, lockpipe.ErrHeld):
		return "held"
	case errors.Is(err, lockpipe.ErrExpired): // of Adopt; the metrics count it as held
		return "expired"
	}
	return "no_quorum"
}

// errKinds are all errors that a text without names can have.
var errKinds = []error{
	lockpipe.ErrHeld, lockpipe.ErrNoQuorum, lockpipe.ErrOverloaded, lockpipe.ErrInvalid,
	lockpipe.ErrLost, lockpipe.ErrExpired, lockpipe.ErrClosed, lockpipe.ErrKept,
	context.Canceled, context.DeadlineExceeded,
}

// withoutNames returns an error that says of which kinds err is, and names neither keys nor nodes.
func withoutNames(err error) error {
	var kinds []string
	for _, kind := range errKinds {
		if errors.Is(err, kind) {
			kinds = append(kinds, kind.Error())
		}
	}
	return errors.New(strings.Join(kinds, ": "))
}

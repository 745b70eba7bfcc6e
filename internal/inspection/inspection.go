// Package inspection asks masters what they are and how they do.
package inspection

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// How long an inspection takes.
const (
	// Timeout is how long one inspection of the nodes lasts at most.
	Timeout = 4 * time.Second
	// answerTimeout is how long one answer may take, unless the owner wants more. It is as long as
	// the probes on the connection for locks may take.
	answerTimeout = link.SilenceGap + link.ProbeTimeout
	// The client asks for the time again and again during SampleSpan. A round trip of some
	// milliseconds is little of that.
	SampleSpan = time.Second
	sampleGap  = 100 * time.Millisecond
)

var (
	errUnexpected = errors.New("unexpected reply")
	errSilent     = errors.New("no answer in time")
)

// Inspector lets all callers at the same time share one inspection of all nodes. It runs on no
// caller's context. It has at most one connection to each node, and touches neither the connection
// for locks nor the connector. All methods are safe for concurrent use.
type Inspector struct {
	links   []*link.Link
	timeout time.Duration // for one answer

	mu      sync.Mutex  // guards all below; a leaf
	current *inspection // nil while none is under way
	closed  bool
}

// New returns an Inspector of the nodes. nodeTimeout is how long a node may take to answer, as far
// as it is longer than the usual limit.
func New(links []*link.Link, nodeTimeout time.Duration) *Inspector {
	return &Inspector{links: links, timeout: max(nodeTimeout, answerTimeout)}
}

// inspection asks all nodes once.
type inspection struct {
	cancel context.CancelFunc
	done   chan struct{}
	// Set before done is closed.
	facts []Facts
	err   error
}

// Inspect asks every node what it is and how it does, whatever the state of the node. It uses a
// connection of its own, which it closes again. The facts are in the order of the nodes. If a node
// can not be asked, its facts say so. It takes a second, two or three if a node hangs, and never
// more than about four. Callers at the same time share one inspection and its facts, and must not
// change them. The error is link.ErrClosed or ctx's.
func (all *Inspector) Inspect(ctx context.Context) ([]Facts, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	run := all.share()
	if run == nil {
		return nil, link.ErrClosed
	}
	select {
	case <-run.done:
		return run.facts, run.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// share returns the inspection that is under way, or a new one; nil after Close.
func (all *Inspector) share() *inspection {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.current != nil || all.closed {
		return all.current
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	run := &inspection{
		cancel: cancel, done: make(chan struct{}), facts: make([]Facts, len(all.links)),
	}
	all.current = run
	go func() {
		defer close(run.done)
		defer cancel()
		all.run(ctx, run)
		all.mu.Lock()
		defer all.mu.Unlock()
		all.current = nil
	}()
	return run
}

// Close ends the inspection that is under way. No other begins.
func (all *Inspector) Close() {
	all.mu.Lock()
	all.closed = true
	run := all.current
	all.mu.Unlock()
	if run != nil {
		run.cancel()
		<-run.done
	}
}

// run asks all nodes at once.
func (all *Inspector) run(ctx context.Context, run *inspection) {
	var asking sync.WaitGroup
	for i, l := range all.links {
		asking.Go(func() { run.facts[i] = all.inspect(ctx, l) })
	}
	asking.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		run.facts, run.err = nil, link.ErrClosed
	}
}

// inspect asks one node over a connection of its own what it is, and then for its time. It also
// takes the state of the node from the connector. It never waits for the connector, and changes
// nothing of it.
func (all *Inspector) inspect(ctx context.Context, l *link.Link) Facts {
	f := Facts{Node: l.Name()}
	err := all.interview(ctx, l, &f)
	f.State, _, f.StateErr = l.Status()
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.Err = errSilent
	case errors.Is(err, resp.ErrUnanswered) && errors.Is(f.StateErr, resp.ErrUnanswered):
		f.Err = f.StateErr // it may have advice about TLS
	default:
		f.Err = l.Hide(err)
	}
	return f
}

// interview makes the connection, asks everything, and closes the connection. The error is why it
// could not ask everything.
func (all *Inspector) interview(ctx context.Context, l *link.Link, f *Facts) error {
	conn, steps, err := l.DialForInspection(ctx)
	if err != nil {
		return err
	}
	end := func() { _ = endpoint.Abort(conn) }
	defer end()
	defer context.AfterFunc(ctx, end)()
	v := &interview{resp.NewConn(conn), f, l.Hide, all.timeout}
	if err := v.ask(steps...); err != nil { // before the rest, which would be for another user
		return err
	}
	if err := v.identify(l.LayoutsKey()); err != nil {
		f.CommandErrors = nil // they would be another user's
		return err
	}
	return v.sample(ctx)
}

package multiplex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	// inspectTimeout is how long one inspection of the nodes lasts at most.
	inspectTimeout = 4 * time.Second
	// answerTimeout is how long one answer may take, unless NodeTimeout is longer. It is as long as
	// the probes on the connection for locks may take.
	answerTimeout = silenceGap + probeTimeout
	// The client asks for the time again and again during sampleSpan. That is so long that a round
	// trip of some milliseconds is little of it.
	sampleSpan = time.Second
	sampleGap  = 100 * time.Millisecond
)

var (
	errUnexpected = errors.New("unexpected reply")
	errSilent     = errors.New("no answer in time")
)

// inspections lets all callers at the same time share one inspection. It runs on no caller's
// context. It has at most one connection to each node, and touches neither the connection for locks
// nor the connector.
type inspections struct {
	mu      sync.Mutex  // guards all below; a leaf
	current *inspection // nil while none is under way
	closed  bool
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
// connection of its own, which it closes again. The facts are in configuration order. If a node can
// not be asked, its facts say so. It takes a second, two or three if a node hangs, and never more
// than about four. Callers at the same time share one inspection and its facts, and must not change
// them. The error is ErrClosed or ctx's.
func (m *Mux) Inspect(ctx context.Context) ([]Facts, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	run := m.inspections.share(m.nodes)
	if run == nil {
		return nil, ErrClosed
	}
	select {
	case <-run.done:
		return run.facts, run.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// share returns the inspection that is under way, or a new one; nil after close.
func (all *inspections) share(nodes []*node) *inspection {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.current != nil || all.closed {
		return all.current
	}
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	run := &inspection{cancel: cancel, done: make(chan struct{}), facts: make([]Facts, len(nodes))}
	all.current = run
	go func() {
		defer close(run.done)
		defer cancel()
		run.run(ctx, nodes)
		all.mu.Lock()
		defer all.mu.Unlock()
		all.current = nil
	}()
	return run
}

// close ends the inspection that is under way. No other begins.
func (all *inspections) close() {
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
func (l *inspection) run(ctx context.Context, nodes []*node) {
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() { l.facts[i] = n.inspect(ctx) })
	}
	asking.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		l.facts, l.err = nil, ErrClosed
	}
}

// inspect asks the node over a connection of its own what it is, and then for its time. It also
// takes the state of the node from the connector. It never waits for the connector, and changes
// nothing of it.
func (n *node) inspect(ctx context.Context) Facts {
	f := Facts{Node: n.addr}
	err := n.interview(ctx, &f)
	status := n.status()
	f.State, f.StateErr = status.State, status.Err
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.Err = errSilent
	case errors.Is(err, resp.ErrUnanswered) && errors.Is(f.StateErr, resp.ErrUnanswered):
		f.Err = f.StateErr // it may have advice about TLS
	default:
		f.Err = n.hide(err)
	}
	return f
}

// interview makes the connection, asks everything, and closes the connection. The error is why it
// could not ask everything.
func (n *node) interview(ctx context.Context, f *Facts) error {
	conn, err := n.dialForInspection(ctx)
	if err != nil {
		return err
	}
	end := func() { _ = abort(conn) }
	defer end()
	defer context.AfterFunc(ctx, end)()
	v := &interview{resp.NewConn(conn), f, n.hide, max(n.mux.cfg.NodeTimeout, answerTimeout)}
	option := n.inspector.endpoint.option
	n.logins.inspection.Load().apply(&option)
	steps := credentials(&option)
	if option.ClientName != "" { // an error is of no interest
		setName := []string{"CLIENT", "SETNAME", option.ClientName}
		steps = append(steps, resp.Step{Command: setName})
	}
	if err := v.ask(steps...); err != nil { // before the rest, which would be for another user
		return err
	}
	if err := v.identify(); err != nil {
		f.CommandErrors = nil // they would be another user's
		return err
	}
	return v.sample(ctx)
}

// dialForInspection makes the connection for an inspection. If Sentinel watches the master, it
// leads to the server that is named now.
func (n *node) dialForInspection(ctx context.Context) (net.Conn, error) {
	if err := n.logins.refresh(ctx, &n.logins.inspection); err != nil {
		return nil, err
	}
	if n.sentinels != nil {
		master, err := n.sentinels.findMaster(ctx)
		if err != nil {
			return nil, err
		}
		n.inspector.endpoint = n.endpoint.withAddress(master)
	}
	conn, err := n.inspector.open(ctx)
	var unknown *net.DNSError // it names the host, also after a timeout
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &unknown) {
		return nil, fmt.Errorf("not connected within %v", dialTimeout)
	}
	return conn, err
}

// interview is the connection of one inspection to one node.
type interview struct {
	conn    *resp.Conn
	facts   *Facts
	hide    func(error) error // removes the passwords
	timeout time.Duration     // for one round trip
}

// ask is Conn.Do within the timeout. After an error the connection is closed or to be closed.
func (v *interview) ask(steps ...resp.Step) error {
	late := time.AfterFunc(v.timeout, func() { _ = abort(v.conn.Conn) })
	err := v.conn.Do(steps...)
	if !late.Stop() {
		return &timeoutError{v.timeout}
	}
	return err
}

// identify asks for what does not change from one moment to the next. Servers before 7.0 take one
// section or pattern at a time.
func (v *interview) identify() error {
	settings := func(r resp.Value) bool {
		v.facts.readConfig(resp.Pairs(r.Items))
		return r.Kind == '*'
	}
	return v.ask(
		v.step(func(r resp.Value) bool {
			text, ok := r.AsString()
			v.facts.readInfo(text)
			return ok
		}, "INFO"),
		v.step(settings, "CONFIG GET", "*appendfsync*"),
		v.step(settings, "CONFIG GET", "save"),
		// No server is to notify this connection of anything.
		v.permission("CLIENT TRACKING", "OFF"),
		v.permission("CLIENT CACHING", "NO"), // an error while tracking is off
	)
}

// permission is one command of which only is of interest whether the user may use it.
func (v *interview) permission(command, arg string) resp.Step {
	onReply := func(r resp.Value) error {
		if strings.HasPrefix(r.Text, "NOPERM ") {
			return v.recordCommandError(command, r.Text)
		}
		return nil
	}
	return resp.Step{Command: append(strings.Fields(command), arg), OnReply: onReply}
}

// step is one command, of one or two words, whose error is a fact. take reports whether a reply
// that is no error makes sense.
func (v *interview) step(take func(resp.Value) bool, command string, args ...string) resp.Step {
	onReply := func(r resp.Value) error {
		switch {
		case r.Kind == '-':
			return v.recordCommandError(command, strings.TrimPrefix(r.Text, "ERR "))
		case !take(r):
			return v.recordCommandError(command, errUnexpected.Error())
		}
		return nil
	}
	return resp.Step{Command: append(strings.Fields(command), args...), OnReply: onReply}
}

// sample asks for the time during sampleSpan.
func (v *interview) sample(ctx context.Context) error {
	for began := time.Now(); ; {
		s := Sample{Sent: time.Now()}
		err := v.ask(v.step(func(r resp.Value) (ok bool) {
			s.Server, ok = readTime(r)
			return ok
		}, "TIME"))
		s.Received = time.Now()
		if err != nil {
			return err
		}
		v.facts.Samples = append(v.facts.Samples, s)
		if s.Received.Sub(began) >= sampleSpan {
			return nil
		}
		sleepCtx(ctx, sampleGap)
	}
}

// recordCommandError notes a command that the server answered with an error, once. It returns the
// error if the user may ask nothing.
func (v *interview) recordCommandError(command, text string) error {
	err := v.hide(errors.New(text))
	if strings.HasPrefix(text, "NOAUTH ") {
		return err
	}
	for _, r := range v.facts.CommandErrors {
		if r.Command == command {
			return nil
		}
	}
	v.facts.CommandErrors = append(v.facts.CommandErrors, CommandError{command, err.Error()})
	return nil
}

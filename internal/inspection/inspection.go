// Package inspection asks masters what they are and how they do. It only reads.
package inspection

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/ids"
)

// How long an inspection takes.
const (
	// AfterConnect is how long one inspection of the nodes lasts at most, after
	// endpoint.Endpoint.DialTimeout.
	AfterConnect = 3 * time.Second
	// answerTimeout is how long one answer may take, unless the owner wants more. It is as long as
	// the probes on a connection for locks may take.
	answerTimeout = 1500 * time.Millisecond
	// voterTimeout is after what time a client has certainly given up its connection for locks if
	// the server there answers nothing: half a second more than link.SilenceGap twice and
	// link.ProbeTimeout.
	voterTimeout = 2500 * time.Millisecond
	// The client asks for the time again and again during SampleSpan. A round trip of some
	// milliseconds is little of that.
	SampleSpan = time.Second
	sampleGap  = 100 * time.Millisecond
)

// ErrClosed is the error of an inspection that Close has ended.
var ErrClosed = errors.New("closed")

var (
	errUnexpected = errors.New("unexpected reply")
	errSilent     = errors.New("no answer in time")
)

// Config says how an Inspector looks at its nodes. The zero value is a good default.
type Config struct {
	// NodeTimeout is how long a node may take to answer, as far as it is longer than the usual
	// limit.
	NodeTimeout time.Duration
	// Guarded says that the records behind Prefix are of interest: that of the restart guard, and
	// the layouts in use.
	Guarded bool
	Prefix  string
	// Dial opens connections; nil for a net.Dialer.
	Dial endpoint.DialFunc
	// Logger logs a panic of Dial, once for each node; nil if another Dialer of Dial does.
	Logger *slog.Logger
}

// Inspector lets all callers at the same time share one inspection of all nodes. It runs on no
// caller's context. It has at most two connections to each node, and one to each sentinel. It
// touches neither a connection for locks nor a connector. All methods are safe for concurrent use.
type Inspector struct {
	nodes   []*node
	cfg     Config
	timeout time.Duration // of one inspection

	mu      sync.Mutex  // guards all below; a leaf
	current *inspection // nil while none is under way
	closed  bool
}

// New returns an Inspector of the nodes.
func New(nodes []Node, cfg Config) *Inspector {
	cfg.NodeTimeout = max(cfg.NodeTimeout, answerTimeout)
	all := &Inspector{cfg: cfg}
	for _, n := range nodes {
		all.nodes = append(all.nodes, newNode(n, cfg))
		all.timeout = max(all.timeout, n.Logins.Endpoint().DialTimeout+AfterConnect)
	}
	return all
}

// inspection asks all nodes once.
type inspection struct {
	cancel context.CancelFunc
	done   chan struct{}
	// Set before done is closed.
	facts []Facts
	err   error
}

// Inspect asks every node what it is and how it does. It uses connections of its own, which it
// closes again. The facts are in the order of the nodes. If a node can not be asked, its facts say
// so. It takes a second, some more if a node hangs or its name leads to two servers, and never more
// than three seconds and the DialTimeout. Callers at the same time share one inspection and its
// facts, and must not change them. The error is ErrClosed or ctx's.
func (all *Inspector) Inspect(ctx context.Context) ([]Facts, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	run := all.share()
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

// share returns the inspection that is under way, or a new one; nil after Close.
func (all *Inspector) share() *inspection {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.current != nil || all.closed {
		return all.current
	}
	ctx, cancel := context.WithTimeout(context.Background(), all.timeout)
	run := &inspection{
		cancel: cancel, done: make(chan struct{}), facts: make([]Facts, len(all.nodes)),
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

// Close ends the inspection that is under way, and waits until it has ended, or until ctx ends. No
// other begins.
func (all *Inspector) Close(ctx context.Context) {
	all.mu.Lock()
	all.closed = true
	run := all.current
	all.mu.Unlock()
	if run == nil {
		return
	}
	run.cancel()
	select {
	case <-run.done:
	case <-ctx.Done():
	}
}

// run asks all nodes at once.
func (all *Inspector) run(ctx context.Context, run *inspection) {
	var asking sync.WaitGroup
	for i, n := range all.nodes {
		asking.Go(func() { run.facts[i] = all.inspect(ctx, n) })
	}
	asking.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		run.facts, run.err = nil, ErrClosed
	}
}

// inspect asks one node what it is, and then for its time.
func (all *Inspector) inspect(ctx context.Context, n *node) Facts {
	e := n.Logins.Endpoint()
	f := Facts{Node: e.Name, LayoutName: e.LayoutName()}
	err := all.interview(ctx, n, &f)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.Err = errSilent
	default:
		f.Err = n.Logins.Hide(err)
	}
	return f
}

// interview makes the connection, asks everything, and closes the connection. The error is why it
// could not ask everything.
func (all *Inspector) interview(ctx context.Context, n *node, f *Facts) error {
	if err := n.findMaster(ctx); err != nil {
		return err
	}
	v, err := all.open(ctx, n, f)
	if err != nil {
		return err
	}
	defer v.end()
	admission := ""
	if all.cfg.Guarded {
		admission = all.cfg.Prefix + ids.AdmittedKey
	}
	if err := v.identify(all.cfg.Prefix + ids.LayoutsKey); err != nil {
		f.CommandErrors = nil // they would be another user's
		return err
	}
	found := all.lookForOthers(ctx, n, f.RunID)
	err = v.sample(ctx)
	other := found() // in any case: the next inspection needs the dialer
	if err != nil {
		return err
	}
	if err := v.readAdmission(admission); err != nil { // last: a new fleet may be at its first use
		return err
	}
	return v.confirm(ctx, n, other)
}

// open makes a connection, and logs in there. end is for the caller, if there is no error.
func (all *Inspector) open(ctx context.Context, n *node, f *Facts) (*interview, error) {
	conn, steps, err := n.dial(ctx)
	if err != nil {
		return nil, err
	}
	f.readCertificates(conn, n.dialer.Endpoint.TLS)
	v := newInterview(ctx, conn, f, n.Logins.Hide, all.cfg.NodeTimeout)
	if err := v.ask(steps...); err != nil { // before the rest, which would be for another user
		v.end()
		return nil, err
	}
	return v, nil
}

package preflight

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
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

// Config says which nodes are inspected, and what the client of them is like. The facts are
// compared with that.
type Config struct {
	// Links lead to the nodes, if a client has them. Otherwise there are Endpoints and Credentials.
	Links       []*link.Link
	Endpoints   []*endpoint.Endpoint
	Credentials endpoint.CredentialsFunc
	// Dial opens connections; nil for a net.Dialer.
	Dial                endpoint.DialFunc
	Logger              *slog.Logger
	Prefix              string
	Guard               guard.Mode // if it is off, no record behind Prefix is of interest
	MaxTTL, NodeTimeout time.Duration
	// Sizes are how many nodes there are in each set in which a quorum is needed.
	Sizes []int
	// Layouts are those that the client uses, as in fleet.Config, and Owner is its own.
	Layouts [][]fleet.Group
	Owner   string
}

// Inspector lets all callers at the same time share one look at all nodes. It runs on no caller's
// context. It has at most two connections to each node, and one to each sentinel. It touches
// neither a connection for locks nor a connector. All methods are safe for concurrent use.
type Inspector struct {
	cfg     Config
	nodes   []*node
	timeout time.Duration   // of one look
	open    context.Context // ends with Close
	close   context.CancelFunc

	mu      sync.Mutex // guards current; a leaf
	current *look      // nil while none is under way
}

// look asks all nodes once.
type look struct {
	done  chan struct{}
	facts []Facts // set before done is closed; of little use after Close
}

// New returns an Inspector of the nodes.
func New(cfg Config) *Inspector {
	i := &Inspector{cfg: cfg}
	i.open, i.close = context.WithCancel(context.Background())
	for _, l := range cfg.Links {
		n := newNode(l.Logins(), cfg.Dial, nil) // the connectors log the panics
		n.link, n.votes = l, func() (address, runID string) { return votes(l) }
		i.nodes = append(i.nodes, n)
	}
	if cfg.Links == nil {
		for _, e := range cfg.Endpoints {
			logins := endpoint.NewLogins(e, cfg.Credentials, cfg.Logger)
			i.nodes = append(i.nodes, newNode(logins, cfg.Dial, cfg.Logger))
		}
	}
	for _, n := range i.nodes {
		i.timeout = max(i.timeout, n.logins.Endpoint().DialTimeout+AfterConnect)
	}
	return i
}

// Inspect returns what is found, as Check does. The error is ErrClosed or ctx's.
func (i *Inspector) Inspect(ctx context.Context) ([]Finding, error) {
	facts, err := i.Ask(ctx)
	if err != nil {
		return nil, err
	}
	return Check(&i.cfg, facts), nil
}

// Ask asks every node what it is and how it does. It uses connections of its own, which it closes
// again. The facts are in the order of the nodes. If a node can not be asked, its facts say so. It
// takes a second, some more if a node hangs or its name leads to two servers, and never more than
// three seconds and the DialTimeout. Callers at the same time share the facts, and must not change
// them. The error is ErrClosed or ctx's.
func (i *Inspector) Ask(ctx context.Context) ([]Facts, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	shared := i.share()
	if shared == nil {
		return nil, ErrClosed
	}
	select {
	case <-shared.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if i.open.Err() != nil {
		return nil, ErrClosed
	}
	return shared.facts, nil
}

// share returns the look that is under way, or a new one; nil after Close.
func (i *Inspector) share() *look {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current != nil || i.open.Err() != nil {
		return i.current
	}
	shared := &look{done: make(chan struct{})}
	i.current = shared
	go func() {
		defer close(shared.done)
		shared.facts = i.askAll()
		i.mu.Lock()
		defer i.mu.Unlock()
		i.current = nil
	}()
	return shared
}

// Close ends the look that is under way, and waits until it has ended, or until ctx ends. No other
// begins.
func (i *Inspector) Close(ctx context.Context) {
	i.close()
	i.mu.Lock()
	shared := i.current
	i.mu.Unlock()
	if shared == nil {
		return
	}
	select {
	case <-shared.done:
	case <-ctx.Done():
	}
}

// askAll asks all nodes at once.
func (i *Inspector) askAll() []Facts {
	ctx, cancel := context.WithTimeout(i.open, i.timeout)
	defer cancel()
	facts := make([]Facts, len(i.nodes))
	var asking sync.WaitGroup
	for at, n := range i.nodes {
		asking.Go(func() { facts[at] = i.askNode(ctx, n) })
	}
	asking.Wait()
	for at, n := range i.nodes {
		if n.link == nil {
			continue
		}
		state, _, why := n.link.Status()
		facts[at].Status = &Status{state, why}
		if facts[at].Other.RunID != "" {
			i.cfg.Logger.Error("lockpipe: node's name leads to more than one server, so locks may "+
				"fail to exclude each other: give each server a name of its own",
				slog.String("node", facts[at].Node))
		}
	}
	return facts
}

// askNode asks one node what it is, and then for its time.
func (i *Inspector) askNode(ctx context.Context, n *node) Facts {
	e := n.logins.Endpoint()
	f := Facts{Node: e.Name, LayoutName: e.LayoutName(), SlotOf: e.Cluster}
	err := i.interview(ctx, n, &f)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.Err = errors.New("no answer in time")
	default:
		f.Err = n.logins.Hide(err)
	}
	return f
}

// interview makes the connection, asks everything, and closes the connection. The error is why it
// could not ask everything.
func (i *Inspector) interview(ctx context.Context, n *node, f *Facts) error {
	if err := n.findMaster(ctx); err != nil {
		return err
	}
	timeout := max(i.cfg.NodeTimeout, answerTimeout)
	v, err := n.connect(ctx, f, timeout)
	if err != nil {
		return err
	}
	defer v.end()
	prefix := n.logins.Endpoint().Tag + i.cfg.Prefix
	if err := v.identify(prefix + ids.LayoutsKey); err != nil {
		f.CommandErrors = nil // they would be another user's
		return err
	}
	if f.SlotOf > 0 {
		if err := v.askCluster(); err != nil {
			return err
		}
	}
	known := time.Now()
	found := n.lookForOthers(ctx, f.RunID(), timeout)
	err = v.sample(ctx)
	other := <-found // in any case: the next look needs the dialer
	if err != nil {
		return err
	}
	if i.cfg.Guard != guard.Off { // last: a new fleet may be at its first use
		if err := v.readAdmission(prefix + ids.AdmittedKey); err != nil {
			return err
		}
	}
	return v.confirm(ctx, other, known)
}

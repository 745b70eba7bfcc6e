package multiplex

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// inspectTimeout is how long one look at the nodes lasts at most. A node that hangs is given up before, when its connection is.
	inspectTimeout = 4 * time.Second
	// The time is asked for again and again over sampleSpan: so long that a round trip of some milliseconds is little of it.
	sampleSpan = time.Second
	sampleGap  = 100 * time.Millisecond
)

var (
	errUnexpected = errors.New("unexpected reply")
	errSilent     = errors.New("no answer in time")
)

// inspections lets all who ask at the same time share one look at the nodes. It runs on no caller's context, and takes one place of each
// node's ring, however many ask.
type inspections struct {
	mu      sync.Mutex  // guards all below; a leaf
	current *inspection // nil while nobody asks
	closed  bool
}

// inspection is one look at all nodes.
type inspection struct {
	cancel context.CancelFunc
	done   chan struct{}
	// Set before done is closed.
	facts []Facts
	err   error
}

// Inspect asks every node what it is and how it does, over its usual connection. The facts are in configuration order. A node that can not
// be asked is one of them. It takes a second, two or three where a node hangs, and never more than about four. Who asks while another does shares its facts, and must not
// change them. The error is ErrClosed or ctx's.
func (m *Mux) Inspect(ctx context.Context) ([]Facts, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	look := m.inspections.join(m.nodes)
	if look == nil {
		return nil, ErrClosed
	}
	select {
	case <-look.done:
		return look.facts, look.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns the look that is under way, or a new one; nil after close.
func (all *inspections) join(nodes []*node) *inspection {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.current != nil || all.closed {
		return all.current
	}
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	look := &inspection{cancel: cancel, done: make(chan struct{}), facts: make([]Facts, len(nodes))}
	all.current = look
	go func() {
		defer close(look.done)
		defer cancel()
		look.run(ctx, nodes)
		all.mu.Lock()
		defer all.mu.Unlock()
		all.current = nil
	}()
	return look
}

// close ends the look that is under way. No other begins.
func (all *inspections) close() {
	all.mu.Lock()
	all.closed = true
	look := all.current
	all.mu.Unlock()
	if look != nil {
		look.cancel()
		<-look.done
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

// inspect asks the node what it is, and then for its time.
func (n *node) inspect(ctx context.Context) Facts {
	f := Facts{Node: n.addr}
	if f.Err = n.connected(ctx); f.Err == nil {
		f.Err = n.identify(ctx, &f)
	}
	if f.Err == nil {
		f.Err = n.sample(ctx, &f)
	}
	switch {
	case errors.Is(f.Err, context.DeadlineExceeded):
		f.Err = errSilent
	case f.Err != nil:
		f.Quarantined = NodeState(n.state.Load()) == NodeQuarantined
		f.Err = n.hide(f.Err)
	}
	return f
}

// connected waits for the connecting that is under way, and returns why the node is down or quarantined, if it is.
func (n *node) connected(ctx context.Context) error {
	for NodeState(n.state.Load()) == NodeConnecting {
		n.mu.Lock()
		settled := n.settled
		n.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	why, _ := n.down()
	return why
}

// identify asks for what does not change from one moment to the next. The error is that of the connection. Servers before 7.0 take one
// section or pattern at a time.
func (n *node) identify(ctx context.Context, f *Facts) error {
	const config = "CONFIG GET"
	b := n.client.B()
	replies := n.client.DoMulti(ctx, b.Info().Build(), b.ConfigGet().Parameter("*appendfsync*").Build(), b.ConfigGet().Parameter("save").Build())
	for i, r := range replies {
		if err := r.NonRedisError(); err != nil {
			return err
		}
		var err error
		command := config
		if i == 0 {
			var text string
			command = "INFO"
			text, err = r.ToString()
			f.readInfo(text)
		} else {
			var settings map[string]string
			settings, err = r.AsStrMap()
			f.readConfig(settings)
		}
		if err != nil {
			n.refused(f, command, err)
		}
	}
	return nil
}

// sample asks for the time during sampleSpan. The error is that of the connection.
func (n *node) sample(ctx context.Context, f *Facts) error {
	for began := time.Now(); ; {
		s := Sample{Sent: time.Now()}
		r := n.client.Do(ctx, n.client.B().Time().Build())
		s.Received = time.Now()
		if err := r.NonRedisError(); err != nil {
			return err
		}
		var err error
		if s.Server, err = readTime(r); err != nil {
			n.refused(f, "TIME", err)
		}
		f.Samples = append(f.Samples, s)
		if s.Received.Sub(began) >= sampleSpan {
			return nil
		}
		rest(ctx, sampleGap)
	}
}

// refused notes a command that was answered with an error, once.
func (n *node) refused(f *Facts, command string, err error) {
	for _, r := range f.Refused {
		if r.Command == command {
			return
		}
	}
	text := err.Error()
	if _, isReply := rueidis.IsRedisErr(err); !isReply {
		text = errUnexpected.Error()
	}
	f.Refused = append(f.Refused, Refusal{command, n.hide(errors.New(text)).Error()})
}

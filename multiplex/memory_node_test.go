package multiplex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// memoryNode is a node's server in memory. It does what the scripts do, without expiry, and loses
// what the test wants.
type memoryNode struct {
	mu     sync.Mutex
	random *rand.Rand
	keys   map[string]string
	faults float64
}

var errBroken = errors.New("connection broke")

// flush answers each attempt, or breaks the connection before or after the node has executed it, or
// refuses to execute it.
func (s *memoryNode) flush(attempts []*Attempt, answers []node.Answer) {
	s.mu.Lock()
	pause := time.Duration(s.random.IntN(3000)) * time.Microsecond
	s.mu.Unlock()
	time.Sleep(pause)
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := s.random.Float64() < s.faults
	for i, a := range attempts {
		switch {
		case a.op.Kind != node.Release && time.Since(a.op.Sent) > a.timeout:
			answers[i] = node.Answer{LeftNothing: true, Err: node.ErrQueuedTooLong}
		case broken:
			answers[i] = node.Answer{Broken: true, Err: errBroken}
			if s.random.IntN(2) == 0 {
				s.execute(a)
			}
		case s.random.Float64() < s.faults:
			answers[i] = node.Answer{LeftNothing: true, Replied: true, Err: errors.New("READONLY")}
		default:
			answers[i] = s.execute(a)
		}
	}
}

func (s *memoryNode) fail(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = rate
}

// hold lets a key be another's.
func (s *memoryNode) hold(key, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = token
}

func (s *memoryNode) free(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

func (s *memoryNode) left() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.keys)
}

func (s *memoryNode) execute(a *Attempt) node.Answer {
	token, keys := a.claim.Token(), a.claim.keys.All()
	foreign, missing := false, false
	for _, k := range keys {
		v, ok := s.keys[k]
		foreign = foreign || ok && v != token
		missing = missing || !ok
	}
	switch {
	case a.op.Kind == node.Release:
		for _, k := range keys {
			if s.keys[k] == token {
				delete(s.keys, k)
			}
		}
		return node.Answer{Vote: node.Granted, Replied: true}
	case foreign, a.op.Kind == node.Acquire && !missing:
		nothing := a.op.Kind == node.Acquire
		return node.Answer{Vote: node.Refused, LeftNothing: nothing, Replied: true}
	}
	for _, k := range keys {
		s.keys[k] = token
	}
	if a.op.Kind == node.Extend && missing {
		return node.Answer{Vote: node.Refused, Replied: true, KeyIndex: -1}
	}
	return node.Answer{Vote: node.Granted, Replied: true}
}

// attemptOf returns the attempt that a node knows as an operation.
func attemptOf(o node.Operation) *Attempt { return (*Attempt)(o.(*operation)) }

// tripOf returns the trip that a flush is for.
func tripOf(f *node.Flush) *batch.Trip[Attempt, roundState] {
	return f.Reading.(*batch.Trip[Attempt, roundState])
}

// answeredBy returns what sends a flush to a node that answers as the function does. The function
// is given what the node is asked for, one flush after another, in the order of the wire.
func answeredBy(server func(attempts []*Attempt, answers []node.Answer)) func(*node.Flush) {
	last := make(chan struct{}) // closed when the flush before was answered
	close(last)
	return func(f *node.Flush) {
		f.SendTo(func(done func()) {
			before, own := last, make(chan struct{})
			last = own
			go func() {
				<-before
				answerBy(f, server)
				close(own)
				done()
			}()
		})
	}
}

// answerBy has the function answer what is left to be sent.
func answerBy(f *node.Flush, server func(attempts []*Attempt, answers []node.Answer)) {
	var attempts []*Attempt
	var at []int
	for i, r := range f.Answers {
		if r.Replied {
			attempts, at = append(attempts, attemptOf(f.Ops[i])), append(at, i)
		}
	}
	if len(attempts) == 0 {
		return
	}
	answers := make([]node.Answer, len(attempts))
	server(attempts, answers)
	for k, r := range answers {
		f.Answers[at[k]] = r
		f.Counts = f.Counts && r.Replied
	}
}

// all returns what sends a flush to a node that has one answer for everything.
func all(r node.Answer) func(*node.Flush) {
	return answeredBy(func(_ []*Attempt, answers []node.Answer) {
		for i := range answers {
			answers[i] = r
		}
	})
}

// unanswered returns the nodes at which something of the claim is under way.
func unanswered(c *Claim) quorum.Nodes {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered()
}

// unsettled returns the nodes at which something of the claim is under way, or that may hold it.
func unsettled(c *Claim) quorum.Nodes {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered() | c.may
}

func wait(a *Attempt, ctx context.Context) error {
	return asError(a.Wait(ctx))
}

// simulated returns a Mux over n memoryNodes, and a function that ends its goroutines.
func simulated(n int, seed uint64, faults float64) (*Mux, []*memoryNode, func()) {
	m, stores, stop := simulatedConnectors(n, seed, faults)
	return m, stores, func() { stop(); endLogs(m) }
}

// endLogs ends the parked goroutines of all logs, whatever waits.
func endLogs(m *Mux) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.log.Close(ctx)
	for _, n := range m.nodes {
		n.Lines.Close(ctx)
	}
}

// simulatedConnectors is simulated with a function that ends the connectors alone.
func simulatedConnectors(n int, seed uint64, faults float64) (*Mux, []*memoryNode, func()) {
	m := &Mux{cfg: Config{
		NodeTimeout: 20 * time.Millisecond, MaxTTL: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	}}
	m.cfg.Fleet = newFleet(m.cfg)
	m.systems = []quorum.System{quorum.NewSystem(quorum.First(n))}
	m.peers = guard.NewPeers(n, nil)
	stores := make([]*memoryNode, n)
	ctx, stop := context.WithCancel(context.Background())
	for i := range n {
		s := &memoryNode{
			random: rand.New(rand.NewPCG(seed, uint64(i))), keys: map[string]string{},
			faults: faults,
		}
		nd, err := m.newNode(i, &endpoint.Endpoint{Name: fmt.Sprint("node", i)})
		if err != nil {
			panic(err)
		}
		nd.SendFlush = answeredBy(s.flush)
		m.nodes, stores[i] = append(m.nodes, nd), s
	}
	m.log = m.newLog()
	for _, nd := range m.nodes {
		nd.Link.SetState(link.Up, nil)
		m.connectors.Go(func() { nd.Link.Serve(ctx) })
	}
	return m, stores, func() { stop(); m.connectors.Wait() }
}

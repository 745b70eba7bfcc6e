package check

import (
	"context"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
)

const (
	// queryTimeout is how long a node may take for one query, including a connect if that is
	// needed. A Sampler waits longer if the Clients do.
	queryTimeout = time.Second
	// retryPause is how long a probe leaves a node alone that did not answer. Queries meanwhile are
	// unanswered at once.
	retryPause = time.Second
	// maxQueries is how many queries wait for one node. One more is unanswered at once.
	maxQueries = 4 * sampleCallers
)

// query asks a node: does the key live there with the token?
type query struct {
	key, token string
	decided    <-chan struct{} // closed when nobody waits for answers any more
	answers    chan<- answer   // has room for one from each node
}

// answer is one node's.
type answer struct {
	node     string // its name
	found    string // "" if the key lives there with the token; else what was found
	answered bool   // false if the node gave no answer
	// char is the character in the value that says which node it is: see package token.
	char byte
}

// nodeProbe sends queries to one node, one after the other, over a connection of its own. A node
// that hangs costs its probe the patience, and others nothing.
type nodeProbe struct {
	node     Endpoint
	ttl      time.Duration // the longest that a key may have to live
	patience time.Duration // for one query, and a connect if that is needed
	queries  chan query

	// owned by run
	conn       *conn // nil while there is none
	cancel     context.CancelFunc
	retryAfter time.Time // the node is not asked before that
	why        error     // why not
}

func newNodeProbe(node Endpoint, ttl, patience time.Duration) *nodeProbe {
	return &nodeProbe{
		node: node, ttl: ttl, patience: patience, queries: make(chan query, maxQueries),
	}
}

// submit puts a query into the queue. It does not wait.
func (p *nodeProbe) submit(q query) {
	select {
	case p.queries <- q:
	default:
		q.answers <- answer{node: p.node.Name(), found: "too many queries are waiting"}
	}
}

// run answers queries until ctx ends.
func (p *nodeProbe) run(ctx context.Context) {
	defer p.disconnect()
	for {
		select {
		case q := <-p.queries:
			select {
			case <-q.decided:
			default:
				q.answers <- p.answer(ctx, q)
			}
		case <-ctx.Done():
			return
		}
	}
}

// answer asks the node, unless it gave no answer a moment ago.
func (p *nodeProbe) answer(ctx context.Context, q query) answer {
	a := answer{node: p.node.Name()}
	if time.Now().Before(p.retryAfter) {
		a.found = fmt.Sprintf("not asked: %v", p.why)
		return a
	}
	found, char, err := p.ask(ctx, q)
	if ConnectionBroken(err) {
		p.disconnect() // a connection that was cut says nothing about the node
		found, char, err = p.ask(ctx, q)
	}
	if err != nil {
		p.disconnect()
		p.retryAfter, p.why = time.Now().Add(retryPause), err
		a.found = fmt.Sprintf("no answer: %v", err)
		return a
	}
	a.found, a.char, a.answered = found, char, true
	return a
}

// ask asks the node within the patience. It returns "" if the key is as it must be, else what was
// found, and the character in the value.
func (p *nodeProbe) ask(ctx context.Context, q query) (found string, char byte, err error) {
	connected := ctx
	if p.conn == nil {
		connected, p.cancel = context.WithCancel(ctx)
	}
	guard := time.AfterFunc(p.patience, p.cancel)
	found, char, err = p.exchange(connected, q)
	if !guard.Stop() {
		p.disconnect() // it is broken now, even if the answer has just come
	}
	return found, char, err
}

// exchange is ask without a limit. A connection that it makes lasts until ctx ends.
func (p *nodeProbe) exchange(ctx context.Context, q query) (found string, char byte, err error) {
	if p.conn == nil {
		if p.conn, err = dial(ctx, p.node); err != nil {
			return "", 0, err
		}
	}
	key := p.node.node.Tag + q.key
	value, err := p.conn.do("GET", key)
	if err != nil {
		return "", 0, err
	}
	left, err := p.conn.do("PTTL", key)
	if err != nil {
		return "", 0, err
	}
	text, _ := value.(string)
	has, char := ids.SplitValue(text)
	switch ms, ok := left.(int64); {
	case value == nil:
		return "no key", 0, nil
	case has != q.token:
		return "another token", 0, nil
	case !ok || ms <= 0 || ms > p.ttl.Milliseconds():
		return fmt.Sprintf("%v ms to live", left), 0, nil
	}
	return "", char, nil
}

// disconnect ends the connection, if there is one.
func (p *nodeProbe) disconnect() {
	if p.conn != nil {
		p.conn.close()
		p.conn = nil
	}
	if p.cancel != nil {
		p.cancel()
		p.cancel = nil
	}
}

package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	// answerTimeout is how long a node may take for one look, with connecting where that is needed.
	answerTimeout = time.Second
	// awayPause is how long a node that did not answer is left alone. Questions meanwhile are
	// unanswered at once.
	awayPause = time.Second
	// maxQuestions is how many questions wait for one node; one more is unanswered at once.
	maxQuestions = 4 * samplers
)

// question is what a sample asks every node: does the key live there with the token?
type question struct {
	key, token string
	decided    <-chan struct{} // closed when nobody waits for answers any more
	answers    chan<- answer   // has room for one from each node
}

// answer is one node's.
type answer struct {
	node     string // its address
	found    string // "" where the key lives there with the token; else what was found
	answered bool   // false where the node gave no answer
}

// prober asks one node, over a connection of its own, one question after the other. A node that
// hangs costs its prober answerTimeout, and nobody else anything.
type prober struct {
	node      endpoint
	ttl       time.Duration // the longest that a key may have to live
	questions chan question

	// owned by run
	conn   *nodeConn // nil while there is none
	cancel context.CancelFunc
	away   time.Time // not asked before that
	why    error     // why not
}

func newProber(node endpoint, ttl time.Duration) *prober {
	return &prober{node: node, ttl: ttl, questions: make(chan question, maxQuestions)}
}

// ask puts a question. It does not wait.
func (p *prober) ask(q question) {
	select {
	case p.questions <- q:
	default:
		q.answers <- answer{node: p.node.address, found: "too many questions are waiting"}
	}
}

// run answers until ctx ends.
func (p *prober) run(ctx context.Context) {
	defer p.drop()
	for {
		select {
		case q := <-p.questions:
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

// answer asks the node, if it is not known to be away.
func (p *prober) answer(ctx context.Context, q question) answer {
	a := answer{node: p.node.address}
	if time.Now().Before(p.away) {
		a.found = fmt.Sprintf("away: %v", p.why)
		return a
	}
	found, err := p.look(ctx, q)
	if broken(err) {
		p.drop() // a connection that was cut says nothing about the node
		found, err = p.look(ctx, q)
	}
	if err != nil {
		p.drop()
		p.away, p.why = time.Now().Add(awayPause), err
		a.found = fmt.Sprintf("no answer: %v", err)
		return a
	}
	a.found, a.answered = found, true
	return a
}

// look does one look, within answerTimeout: "" where the key is as it must be, else what was found.
func (p *prober) look(ctx context.Context, q question) (found string, err error) {
	connected := ctx
	if p.conn == nil {
		connected, p.cancel = context.WithCancel(ctx)
	}
	guard := time.AfterFunc(answerTimeout, p.cancel)
	found, err = p.exchange(connected, q)
	if !guard.Stop() {
		p.drop() // it is broken now, even where the answer has just come
	}
	return found, err
}

// exchange is look without a limit. A connection that it makes lasts until ctx ends.
func (p *prober) exchange(ctx context.Context, q question) (found string, err error) {
	if p.conn == nil {
		if p.conn, err = dialNode(ctx, p.node); err != nil {
			return "", err
		}
	}
	value, err := p.conn.do("GET", q.key)
	if err != nil {
		return "", err
	}
	left, err := p.conn.do("PTTL", q.key)
	if err != nil {
		return "", err
	}
	switch ms, ok := left.(int64); {
	case value == nil:
		return "no key", nil
	case value != q.token:
		return "another token", nil
	case !ok || ms <= 0 || ms > p.ttl.Milliseconds():
		return fmt.Sprintf("%v ms to live", left), nil
	}
	return "", nil
}

// drop ends the connection, where there is one.
func (p *prober) drop() {
	if p.conn != nil {
		p.conn.close()
		p.conn = nil
	}
	if p.cancel != nil {
		p.cancel()
		p.cancel = nil
	}
}

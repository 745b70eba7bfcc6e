package sim

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/sim/dice"
)

// link is all that lies between one client and one node. What its weather does to what is sent
// depends on the seed, the place and the time alone, so it is the same whatever the order in which
// goroutines run.
type link struct {
	seed  uint64 // of this link
	plan  *Plan
	node  *node
	start time.Time
	sends func([]byte) // is shown what the client sends; set before the first dial

	up, down *way    // of all its connections: nothing overtakes on a direct connection
	paused   *moment // until when the client is
	frozen   *moment // until when the node is
	slow     moment  // until when everything takes longer
	gone     moment  // until when nothing gets through and no connection is made
	refusing moment  // until when no connection is accepted

	mu     sync.Mutex // guards all below
	conn   *conn      // the newest; nil before the first
	alias  *link      // to the node that the name leads to; nil: the link's own
	healed bool       // the name leads to its own node from now on
}

func newLink(seed uint64, plan *Plan, n *node, paused, frozen *moment) *link {
	l := &link{
		seed: seed, plan: plan, node: n, start: time.Now(), sends: func([]byte) {},
		paused: paused, frozen: frozen,
	}
	l.up, l.down = l.newWay(frozen, 1), l.newWay(paused, 2)
	return l
}

func (l *link) newWay(stopped *moment, number uint64) *way {
	return &way{stopped: stopped, offset: time.Duration(dice.Mix(l.seed, number) % 1000)}
}

// latency is how long something that is sent now takes. Those that leave a client while it is
// stopped leave when it goes on.
func (l *link) latency(number uint64) time.Duration {
	h := dice.Mix(l.seed, number, uint64(time.Since(l.start)))
	d := l.plan.latency/4 + time.Duration(h%uint64(l.plan.latency))
	if l.slow.ahead() {
		d *= 8
	}
	if h>>40%100 < l.plan.spikes {
		d += time.Duration(h >> 20 % uint64(l.plan.spike))
	}
	if number == 1 && l.paused.ahead() {
		d += time.Until(l.paused.get())
	}
	return d
}

// dial makes a connection.
func (l *link) dial(ctx context.Context) (net.Conn, error) {
	if !wait(ctx, l.latency(1)+l.latency(2)) {
		return nil, ctx.Err()
	}
	if l.refusing.ahead() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if l.gone.ahead() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	to := l.leads()
	c := &conn{link: l, up: l.up, down: l.down}
	if l.plan.crossed || to != l {
		c.up, c.down = l.newWay(to.frozen, 3), l.newWay(l.paused, 4)
	}
	c.cond = sync.NewCond(&c.mu)
	c.session = to.node.open(c.replied, c.hungUp)
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	return c, nil
}

// wait returns false if ctx ends before d has passed.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// current is the newest connection, nil if there was none.
func (l *link) current() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// leads returns the link to the node that the name leads to.
func (l *link) leads() *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alias == nil {
		return l
	}
	return l.alias
}

// lead lets the name lead to the node of another link, from the next connection on; nil: to its
// own. broken: the present connection breaks.
func (l *link) lead(to *link, broken bool) {
	l.mu.Lock()
	if !l.healed {
		l.alias = to
	}
	c := l.conn
	l.mu.Unlock()
	if broken && c != nil {
		c.snap(false)
	}
}

// direct reports whether the newest connection is one to the link's own node.
func (l *link) direct() bool {
	c := l.current()
	return c != nil && c.session.node == l.node
}

// part lets nothing through for d: connections that exist are dead for ever.
func (l *link) part(d time.Duration) {
	l.gone.set(time.Now().Add(d))
	if c := l.current(); c != nil {
		c.deafen()
		c.silence()
	}
}

// heal ends all that is wrong. Connections that lost something break.
func (l *link) heal() {
	for _, m := range []*moment{&l.slow, &l.gone, &l.refusing, &l.up.held} {
		m.set(time.Now())
	}
	l.mu.Lock()
	l.alias, l.healed = nil, true
	l.mu.Unlock()
	if c := l.current(); c != nil {
		if !l.direct() {
			c.snap(false)
		}
		c.mend()
		c.up.review()
		c.down.review()
	}
	l.up.review()
	l.down.review()
}

package sim

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/sim/simrand"
)

// link is the network between one client and one node. What it does to a message depends on the
// seed, the link and the time alone, and not on the order in which goroutines run.
type link struct {
	seed   uint64 // of this link
	plan   *Plan
	server *atomic.Pointer[memorynode.Node] // to which the node's own name leads
	start  time.Time
	onSend func([]byte) // is called with what the client sends; set before the first dial
	// onReply is called when what a session sent at that time arrives at the client; set before the
	// first dial.
	onReply func(from *memorynode.Session, sentAt time.Time)
	// onMeet is called when the client sends behind INFO's reply; set before the first dial.
	onMeet func(*conn)

	up, down         *pipe       // of all its connections: nothing overtakes on a direct connection
	pausedUntil      *atomicTime // until when the client is paused
	frozenUntil      *atomicTime // until when the node is frozen
	slowUntil        atomicTime  // until when everything takes longer
	partitionedUntil atomicTime  // until when nothing gets through and no connection is made
	refusingUntil    atomicTime  // until when no connection is accepted

	mu     sync.Mutex // guards all below
	conns  []*conn    // the newest at the end; only that one, unless the node is in a cluster
	alias  *link      // to the node that the name leads to; nil: the link's own
	healed bool       // the name leads to its own node from now on; set by heal
}

// The directions of a link. They are a part of what simrand.Hash hashes.
const (
	toNode uint64 = 1 + iota
	toClient
	toNodeApart // for a connection with pipes of its own
	toClientApart
)

func newLink(seed uint64, plan *Plan, n *memorynode.Node, pausedUntil, frozenUntil *atomicTime,
) *link {
	l := &link{
		seed: seed, plan: plan, server: &atomic.Pointer[memorynode.Node]{}, start: time.Now(),
		onSend: func([]byte) {}, onReply: func(*memorynode.Session, time.Time) {},
		onMeet:      func(*conn) {},
		pausedUntil: pausedUntil, frozenUntil: frozenUntil,
	}
	l.server.Store(n)
	l.up, l.down = l.newPipe(frozenUntil, toNode), l.newPipe(pausedUntil, toClient)
	return l
}

func (l *link) newPipe(stoppedUntil *atomicTime, direction uint64) *pipe {
	offset := time.Duration(simrand.Hash(l.seed, direction) % 1000)
	return &pipe{stoppedUntil: stoppedUntil, offset: offset}
}

// latency returns how long a message that is sent now takes. A paused client sends its messages
// when it continues.
func (l *link) latency(direction uint64) time.Duration {
	h := simrand.Hash(l.seed, direction, uint64(time.Since(l.start)))
	d := l.plan.latency/4 + time.Duration(h%uint64(l.plan.latency))
	if l.slowUntil.inFuture() {
		d *= 8
	}
	if h>>40%100 < l.plan.spikes {
		d += time.Duration(h >> 20 % uint64(l.plan.spike))
	}
	if direction == toNode && l.pausedUntil.inFuture() {
		d += time.Until(l.pausedUntil.get())
	}
	return d
}

// dial makes a connection to the node that the name leads to, for a client with this number.
func (l *link) dial(ctx context.Context, client int) (net.Conn, error) {
	if !wait(ctx, l.latency(toNode)+l.latency(toClient)) {
		return nil, ctx.Err()
	}
	if l.refusingUntil.inFuture() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if l.partitionedUntil.inFuture() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	to := l.target()
	c := &conn{link: l, client: client, up: l.up, down: l.down}
	if l.plan.reorderAcrossConns || to != l {
		c.up = l.newPipe(to.frozenUntil, toNodeApart)
		c.down = l.newPipe(l.pausedUntil, toClientApart)
	}
	c.cond = sync.NewCond(&c.mu)
	c.session = to.server.Load().Accept(c.sendToClient, c.onNodeClose)
	l.mu.Lock()
	l.keep(c)
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

// keep notes a connection. To a server of a cluster a client has one for each slot, and another one
// on which it asks who has the slots. mu is held.
func (l *link) keep(c *conn) {
	ended := func(c *conn) bool { return l.plan.slots == 0 || c.hasEnded() }
	l.conns = append(slices.DeleteFunc(l.conns, ended), c)
}

// all returns the connections that faults of the link are for.
func (l *link) all() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.conns)
}

// current returns the newest connection, nil if there was none.
func (l *link) current() *conn {
	all := l.all()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// target returns the link to the node that the name leads to.
func (l *link) target() *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alias == nil {
		return l
	}
	return l.alias
}

// setAlias lets the name lead to the node of another link, from the next connection on; nil: to its
// own node. If reset is true, the present connection breaks.
func (l *link) setAlias(to *link, reset bool) {
	l.mu.Lock()
	if !l.healed {
		l.alias = to
	}
	l.mu.Unlock()
	if c := l.current(); reset && c != nil {
		c.reset(false)
	}
}

// isDirect reports whether the newest connection leads to the link's own node.
func (l *link) isDirect() bool {
	c := l.current()
	return c != nil && c.session.Node() == l.server.Load()
}

// partition lets nothing through for d. The present connection stays dead after that.
func (l *link) partition(d time.Duration) {
	l.partitionedUntil.set(time.Now().Add(d))
	for _, c := range l.all() {
		c.dropOutbound()
		c.dropInbound()
	}
}

// heal ends all faults of the link. A connection that has lost data breaks.
func (l *link) heal() {
	for _, until := range []*atomicTime{
		&l.slowUntil, &l.partitionedUntil, &l.refusingUntil, &l.up.heldUntil,
	} {
		until.set(time.Now())
	}
	l.mu.Lock()
	l.alias, l.healed = nil, true
	l.mu.Unlock()
	for _, c := range l.all() {
		if !l.isDirect() {
			c.reset(false)
		}
		c.resetIfLossy()
		c.up.reschedule()
		c.down.reschedule()
	}
	l.up.reschedule()
	l.down.reschedule()
}

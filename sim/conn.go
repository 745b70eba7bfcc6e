package sim

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
)

// conn is the client's end of one connection. A connection that has lost a byte loses everything
// after it. Otherwise replies would answer other commands.
type conn struct {
	link     *link
	client   int // the number of the client among those of its process
	up, down *pipe
	session  *memorynode.Session

	mu           sync.Mutex // guards all below
	cond         *sync.Cond // of mu: there is something to read, or the connection has ended
	in           []byte
	err          error // of Read, after in
	closed       bool
	informed     bool // the client has INFO's reply, or will not read again
	outboundLost bool // what the client sends is lost from now on
	inboundLost  bool // what the node sends is lost from now on
	inFlightLost bool // what is in flight to the node is lost too
	deadline     time.Time
	timer        *time.Timer
}

// Read returns what arrived.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case len(c.in) > 0:
			n := copy(p, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.err != nil:
			return 0, c.err
		case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		c.cond.Wait()
	}
}

// Write sends p on its way.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.err != nil:
		return 0, syscall.EPIPE
	case !c.outboundLost:
		c.link.onSend(p)
		if c.informed {
			c.link.onMeet(c)
		}
		data, now := bytes.Clone(p), time.Now()
		c.up.send(c.link.latency(toNode), func() { c.deliverToNode(data, now) })
	}
	return len(p), nil
}

// deliverToNode gives the node what the client sent at that time.
func (c *conn) deliverToNode(data []byte, sentAt time.Time) {
	c.mu.Lock()
	lost := c.inFlightLost
	c.mu.Unlock()
	if lost {
		return
	}
	if err := c.session.Receive(data, sentAt); err != nil {
		panic(err) // a client has sent what is no command
	}
}

// sendToClient sends data of the node on its way. The node's mu is held.
func (c *conn) sendToClient(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inboundLost {
		now, data := time.Now(), bytes.Clone(data)
		c.down.send(c.link.latency(toClient), func() { c.deliverToClient(data, now) })
	}
}

// deliverToClient gives the client what the node sent at that time.
func (c *conn) deliverToClient(data []byte, sentAt time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.err == nil {
		c.link.onReply(c.session, sentAt)
		c.informed = c.informed || bytes.Contains(data, []byte("master_replid2:"))
	}
	c.in = append(c.in, data...)
	if c.link.plan.stalls > 0 && bytes.HasSuffix(data, []byte(memorynode.Flushed)) {
		// The client's goroutine is slow, and reads it together with what comes next.
		time.AfterFunc(5*c.link.plan.latency, c.wake)
		return
	}
	c.cond.Broadcast()
}

// onNodeClose is called when the node has closed the connection. The node's mu is held.
func (c *conn) onNodeClose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outboundLost = true
	if !c.inboundLost {
		c.down.send(c.link.latency(toClient), func() { c.fail(io.EOF) })
	}
	c.inboundLost = true
}

// fail ends the connection for the client, when it has read what arrived before.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outboundLost, c.inboundLost = true, true
	if c.err == nil {
		c.err = err
	}
	c.cond.Broadcast()
}

// Close ends the connection. What was sent may still arrive.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if !c.outboundLost {
		c.up.send(c.link.latency(toNode), c.session.Close)
	}
	c.outboundLost, c.inboundLost = true, true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cond.Broadcast()
	return nil
}

// dropOutbound loses what the client sends from now on, dropInbound what the node sends.
func (c *conn) dropOutbound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outboundLost = true
}

func (c *conn) dropInbound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inboundLost = true
}

// reset breaks the connection for both ends. If lost is true, data in flight to the node is lost.
// Otherwise it may take long if newer connections may overtake it.
func (c *conn) reset(lost bool) {
	if plan := c.link.plan; plan.reorderAcrossConns {
		c.up.heldUntil.set(time.Now().Add(plan.lateDelay()))
	}
	c.mu.Lock()
	c.inFlightLost = lost
	c.mu.Unlock()
	c.fail(syscall.ECONNRESET)
	c.up.send(c.link.latency(toNode), c.session.Close)
}

// resetIfLossy breaks a connection that has lost data, so that the client makes a new one soon.
func (c *conn) resetIfLossy() {
	c.mu.Lock()
	lossy := (c.outboundLost || c.inboundLost) && !c.closed
	c.mu.Unlock()
	if lossy {
		c.reset(false)
	}
}

// SetDeadline is for reading only: a Write never waits.
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.timer != nil {
		c.timer.Stop()
	}
	if !t.IsZero() && !c.closed {
		c.timer = time.AfterFunc(time.Until(t), c.wake)
	}
	c.cond.Broadcast()
	return nil
}

// hasEnded reports whether the client can't use the connection any more.
func (c *conn) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.err != nil
}

// wake lets Read look again.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cond.Broadcast()
}

// SetReadDeadline is SetDeadline.
func (c *conn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline does nothing.
func (*conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr returns a made-up address.
func (*conn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// RemoteAddr returns a made-up address.
func (*conn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

package sim

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is the client's end of one connection. One that lost a byte loses all that follows: else
// replies would answer other commands.
type conn struct {
	link     *link
	up, down *way
	session  *session

	mu       sync.Mutex // guards all below
	cond     *sync.Cond // of mu: something to read, or the end of it
	in       []byte
	err      error // of Read, behind in
	closed   bool
	deaf     bool // what the client sends is lost from now on
	mute     bool // what the node sends is lost from now on
	cut      bool // what is under way to the node is lost as well
	deadline time.Time
	timer    *time.Timer
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
	case !c.deaf:
		c.link.sends(p)
		data := bytes.Clone(p)
		c.up.send(c.link.latency(1), func() { c.arrive(data) })
	}
	return len(p), nil
}

// arrive brings the node what the client sent.
func (c *conn) arrive(data []byte) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if !cut {
		c.session.receive(data)
	}
}

// replied sends what the node says on its way. The node's mu is held.
func (c *conn) replied(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mute {
		c.down.send(c.link.latency(2), func() { c.receive(data) })
	}
}

func (c *conn) receive(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, data...)
	c.cond.Broadcast()
}

// hungUp is told that the node has closed the connection. The node's mu is held.
func (c *conn) hungUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = true
	if !c.mute {
		c.down.send(c.link.latency(2), func() { c.fail(io.EOF) })
	}
	c.mute = true
}

// fail ends the connection for the client, when it has read what arrived before.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf, c.mute = true, true
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
	if !c.deaf {
		c.up.send(c.link.latency(1), c.session.end)
	}
	c.deaf, c.mute = true, true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cond.Broadcast()
	return nil
}

// deafen loses what the client sends from now on, silence what the node sends.
func (c *conn) deafen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = true
}

func (c *conn) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
}

// snap breaks the connection for both. What was under way to the node is lost, or not; then it may
// take long, where newer connections may overtake it.
func (c *conn) snap(lost bool) {
	if plan := c.link.plan; plan.crossed {
		c.up.held.set(time.Now().Add(plan.lag()))
	}
	c.mu.Lock()
	c.cut = lost
	c.mu.Unlock()
	c.fail(syscall.ECONNRESET)
	c.up.send(c.link.latency(1), c.session.end)
}

// mend breaks a connection that has lost something, so that the client makes a new one soon.
func (c *conn) mend() {
	c.mu.Lock()
	dead := (c.deaf || c.mute) && !c.closed
	c.mu.Unlock()
	if dead {
		c.snap(false)
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

// wake lets Read look at the deadline.
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

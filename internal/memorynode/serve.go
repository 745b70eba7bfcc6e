package memorynode

import (
	"bytes"
	"io"
	"net"
	"time"
)

// maxUnsent is how much a node has for a client that does not read, in bytes. Above it the node
// reads nothing more from that client.
const maxUnsent = 1 << 20

// Dial returns the client's end of a new connection, which is a pipe. It works in a bubble of
// testing/synctest, too.
func (n *Node) Dial() net.Conn {
	client, conn := net.Pipe()
	go n.Serve(conn)
	return client
}

// Serve executes what a client sends on a connection until one of them ends it. After Stop it
// returns at once.
func (n *Node) Serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	n.mu.Lock()
	stopped := n.stopped
	if !stopped {
		n.serving.Add(1)
	}
	n.mu.Unlock()
	if stopped {
		return
	}
	defer n.serving.Done()
	c := &served{conn: conn, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	s := n.Accept(c.send, func() { _ = conn.Close() })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.write(n)
	}()
	c.read(n, s)
	s.Close()
	_ = conn.Close()
	close(c.ready)
	<-ended
}

// served is a connection with a goroutine that reads, and another that writes: a client may write
// much before it reads.
type served struct {
	conn   net.Conn
	ready  chan struct{} // there is something unsent; the reader closes it at the end
	room   chan struct{} // the writer has taken all
	unsent bytes.Buffer  // guarded by Node.mu
}

// send keeps data for the writer. Node.mu is held, and the session has not ended.
func (c *served) send(data []byte) {
	c.unsent.Write(data)
	signal(c.ready)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (c *served) read(n *Node, s *Session) {
	chunk := make([]byte, 64<<10)
	for {
		count, err := c.conn.Read(chunk)
		if err != nil || s.Receive(chunk[:count], time.Now()) != nil {
			return
		}
		for c.isFull(n) {
			<-c.room
		}
	}
}

// isFull reports whether the client has to read first. It is false after an error of the writer.
func (c *served) isFull(n *Node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.unsent.Len() > maxUnsent
}

// write sends what there is, until the session has ended. After an error it drops everything.
func (c *served) write(n *Node) {
	var out bytes.Buffer
	var to io.Writer = c.conn
	for range c.ready {
		n.mu.Lock()
		out, c.unsent = c.unsent, out
		n.mu.Unlock()
		signal(c.room)
		if _, err := to.Write(out.Bytes()); err != nil {
			_ = c.conn.Close()
			to = io.Discard
		}
		out.Reset()
	}
}

// Freeze stops the node as SIGSTOP stops a process. When it returns, the node executes nothing any
// more. Connections stay open, and what clients send is kept. Keys continue to expire. The methods
// of the node still work.
func (n *Node) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = true
}

// Thaw lets a frozen node continue. It executes what it was sent meanwhile.
func (n *Node) Thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = false
	n.thawed.Broadcast()
}

// Stop ends the node as SIGKILL ends a process: it executes and sends nothing more, and all
// connections are broken. When it returns, no goroutine of the node is left.
func (n *Node) Stop() {
	n.mu.Lock()
	n.stopped = true
	n.closeSessions()
	n.mu.Unlock()
	n.serving.Wait()
}

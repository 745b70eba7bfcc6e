package trip

import (
	"net"
	"sync/atomic"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// readSize is how much is read at once: the replies of some thousand commands.
const readSize = 32 << 10

// reader is what the goroutine that reads owns.
type reader struct {
	buffer  []byte
	in      []byte       // of buffer: read, and not followed yet
	replies resp.Checker // of all that is read
	use     use          // of the unfinished value
	pushed  bool         // it is a push
	plain   int          // plain replies that come next
	current *Trip        // the first of flight, if its replies come next behind the plain ones
	decoded int          // replies of current that came

	reads atomic.Uint64 // how often something came

	readErr     error // of the connection below, behind in
	protocolErr error
}

// use is what becomes of a value.
type use byte

const (
	pass   use = iota // the client has it
	decode            // it is a reply to the current trip
	drop              // it is an attribute of such a reply
)

// Read returns what came for the client up to the first byte that is against the protocol. It
// decodes the replies to trips, and reads on until there is something for the client.
func (c *Conn) Read(p []byte) (int, error) {
	for len(p) > 0 && c.protocolErr == nil {
		if len(c.in) > 0 {
			if n, err := c.follow(p); n > 0 || err != nil {
				return n, err
			}
		}
		if err := c.readErr; err != nil {
			c.readErr = nil
			return 0, c.failed(maskContextErr(err))
		}
		var n int
		if n, c.readErr = c.Conn.Read(c.buffer); n == 0 && c.readErr == nil {
			return 0, nil
		}
		c.in = c.buffer[:n]
		if n > 0 {
			c.reads.Add(1)
		}
	}
	return 0, c.protocolErr
}

// Reads returns how often something came from the server.
func (c *Conn) Reads() uint64 { return c.reads.Load() }

// follow goes through what was read until p is full, nothing is left, or a push is complete. Behind
// a push nothing is decoded before the client comes back for more, and so has handled it: a push
// may say that what the server answers from then on does not count. It returns how much of p it has
// filled. No trip that it decodes ends while it runs, except by its last reply.
func (c *Conn) follow(p []byte) (n int, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	c.decoding = true
	c.mu.Unlock()

	n, err = c.fill(p)
	if err != nil {
		c.protocolErr = c.failed(err)
		c.onProtocolError(err)
	}
	c.mu.Lock()
	c.decoding = false
	broken := c.sweep()
	c.mu.Unlock()
	broken.end(Broken)
	return n, err
}

func (c *Conn) fill(p []byte) (n int, err error) {
	for n < len(p) {
		if len(c.in) == 0 {
			return n, nil
		}
		if !c.replies.Begun() {
			if err := c.begin(c.in[0]); err != nil {
				return n, err
			}
		}
		switch c.use {
		case decode:
			err = c.decode()
		case drop:
			var used int
			used, _, err = c.replies.Next(c.in)
			c.in = c.in[used:]
		default:
			var used int
			var complete bool
			used, complete, err = c.replies.Next(c.in[:min(len(c.in), len(p)-n)])
			n += copy(p[n:], c.in[:used])
			c.in = c.in[used:]
			if complete && c.pushed {
				return n, nil
			}
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// begin decides what becomes of the value that begins with b.
func (c *Conn) begin(b byte) error {
	c.use = pass
	if c.pushed = b == '>'; c.pushed {
		return nil
	}
	if c.plain == 0 && c.current == nil {
		c.loadNext()
	}
	switch {
	case c.plain > 0:
		if b != '|' {
			c.plain--
		}
	case c.current != nil:
		if c.use = decode; b == '|' {
			c.use = drop
		}
	case b != '|':
		if _, _, err := c.replies.Next([]byte{b}); err != nil {
			return err
		}
		return resp.Unasked(b)
	}
	return nil
}

// loadNext looks up whose replies come next.
func (c *Conn) loadNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.flight.first
	if t == nil {
		c.plain, c.trailing = c.trailing, 0
		return
	}
	c.plain, t.preceding = t.preceding, 0
	c.current, c.decoded = t, 0
}

// decode takes the replies to the current trip, as far as they came without a break.
func (c *Conn) decode() error {
	t, in := c.current, c.in
	for len(in) > 0 {
		used, complete, err := c.replies.Next(in)
		if err != nil {
			return err
		}
		if complete {
			t.Receiver.OnReply(c.decoded, c.replies.Reply())
			c.decoded++
		}
		if in = in[used:]; c.decoded == t.Commands {
			c.endCurrent()
			break
		}
		if complete && len(in) > 0 && (in[0] == '>' || in[0] == '|') {
			break
		}
	}
	c.in = in
	return nil
}

// endCurrent ends the current trip: all its replies came.
func (c *Conn) endCurrent() {
	t := c.current
	c.current = nil
	c.mu.Lock()
	c.flight.pop()
	c.answered++
	t.answered = true
	var ended list
	if !t.writing {
		ended.push(t)
	}
	c.mu.Unlock()
	ended.end(Answered)
}

package trip

import (
	"net"
	"sync/atomic"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// reader is what the goroutine that reads owns.
type reader struct {
	in      resp.Input
	pass    int   // so many bytes at the begin of in are for the client
	current *Trip // the first of flight, if its replies come next
	decoded int   // replies of current that came

	reads atomic.Uint64 // how often something came

	readErr     error // of the connection below, behind in
	protocolErr error
}

// Read returns the next reply to what the client has written, or a part of it. Before that it
// decodes the pushes and the replies to trips that came first. A value that is not whole, or
// against the protocol, is no value.
func (c *Conn) Read(p []byte) (int, error) {
	for len(p) > 0 && c.pass == 0 {
		switch err := c.follow(); {
		case err != nil:
			return 0, err
		case c.pass > 0:
		case c.readErr != nil:
			err, c.readErr = maskContextErr(c.readErr), nil
			c.mu.Lock()
			defer c.mu.Unlock()
			return 0, c.fail(err)
		default:
			var n int
			if n, c.readErr = c.in.Fill(c.Conn); n == 0 && c.readErr == nil {
				return 0, nil
			} else if n > 0 {
				c.reads.Add(1)
			}
		}
	}
	n := copy(p, c.in.Bytes()[:c.pass])
	c.in.Use(n)
	c.pass -= n
	return n, nil
}

// Reads returns how often something came from the server.
func (c *Conn) Reads() uint64 { return c.reads.Load() }

// follow decodes what was read, up to a value for the client. No trip that it decodes ends while it
// runs, except by its last reply.
func (c *Conn) follow() error {
	if len(c.in.Bytes()) == 0 || c.protocolErr != nil {
		return c.protocolErr
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.decoding = true
	c.mu.Unlock()

	err := c.decode()
	c.mu.Lock()
	if c.decoding = false; err != nil {
		c.protocolErr = c.fail(err)
	}
	broken := c.sweep()
	c.mu.Unlock()
	broken.end(Broken)
	return err
}

func (c *Conn) decode() error {
	for {
		in := c.in.Bytes()
		if len(in) == 0 {
			return nil
		}
		n, err := c.in.Next(in)
		typ := c.in.Type()
		isPush := typ == '>'
		switch {
		case !isPush && typ != 0 && !c.findCurrent(): // however much of it came
			return resp.Unasked(typ)
		case err != nil:
			return err
		case n == 0:
			return nil
		case isPush:
			push := c.in.Reply(in, n)
			c.onPush(push.Value())
			c.in.Use(n)
			continue
		}
		isPlain := c.current.Receiver == nil
		if !isPlain {
			c.current.Receiver.OnReply(c.decoded, c.in.Reply(in, n))
			c.in.Use(n)
		}
		if c.decoded++; c.decoded == c.current.Commands {
			c.endCurrent()
		}
		if isPlain {
			c.pass = n
			return nil
		}
	}
}

// findCurrent looks up whose reply comes next. It returns false if nobody asked for one.
func (c *Conn) findCurrent() bool {
	if c.current == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.current, c.decoded = c.flight.first, 0
	}
	return c.current != nil
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

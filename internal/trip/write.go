package trip

import (
	"io"
	"net"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// placeholder and ping are these commands as they are sent.
const (
	placeholder = "*1\r\n$8\r\n" + Placeholder + "\r\n"
	ping        = "*1\r\n$4\r\nPING\r\n"
)

var (
	placeholderBytes = []byte(placeholder)
	pingBytes        = []byte(ping)
)

// maxJoined is how much memory a Conn keeps to join parts in.
const maxJoined = 64 << 10

// writer is what the goroutine that writes owns.
type writer struct {
	vectored net.Conn            // takes several parts at once, if it is not nil; set once
	commands resp.CommandScanner // of plain commands
	// held is how many bytes of a placeholder came at the end of the last Write. They are not sent
	// before it is known what they are.
	held int

	// Of a running Write; the memory is used again.
	pieces []piece
	taken  []*Trip     // in place of placeholders
	parts  [][]byte    // all that is sent
	out    net.Buffers // the same, as a system call consumes it
	joined []byte
}

// piece is a part of plain commands, or a placeholder.
type piece struct {
	plain []byte // nil for a placeholder
	ended int    // commands that end in it
}

// Write sends p with trips in place of placeholders. It sends nothing if p is not a part of arrays
// of strings.
func (c *Conn) Write(p []byte) (int, error) {
	err := errCommand
	if c.split(p) {
		if err = c.take(); err == nil {
			err = c.send()
		}
	}
	c.endWrite(err)
	if err != nil {
		return 0, maskContextErr(err)
	}
	return len(p), nil
}

// split makes pieces of p. It returns false if p is not a part of arrays of strings.
func (c *Conn) split(p []byte) (ok bool) {
	c.pieces = c.pieces[:0]
	begin, ended := 0, 0 // of the piece at hand, and the commands that end in it
	cut := func(end, next int) {
		if end > begin {
			c.pieces = append(c.pieces, piece{p[begin:end], ended})
		}
		begin, ended = next, 0
	}
	for i := 0; i < len(p); {
		if !c.commands.Begun() {
			same := commonPrefix(p[i:], placeholder[c.held:])
			switch {
			case c.held+same == len(placeholder):
				cut(i, i+same)
				c.pieces, c.held = append(c.pieces, piece{}), 0
				i += same
				continue
			case i+same == len(p):
				cut(i, len(p))
				c.held += same
				return true
			case c.held > 0:
				held := placeholderBytes[:c.held]
				if _, _, ok := c.commands.Next(held); !ok {
					return false
				}
				c.pieces, c.held = append(c.pieces, piece{held, 0}), 0
			}
		}
		n, complete, ok := c.commands.Next(p[i:])
		if !ok {
			return false
		}
		if i += n; complete {
			ended++
		}
	}
	cut(len(p), len(p))
	return true
}

// commonPrefix returns how many bytes at the begin are the same.
func commonPrefix(p []byte, s string) int {
	n := 0
	for n < len(p) && n < len(s) && p[n] == s[n] {
		n++
	}
	return n
}

// take makes parts of the pieces. It counts commands and takes trips, so that the reader knows of
// them before the first byte is on its way: no reply can come first.
func (c *Conn) take() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return net.ErrClosed
	}
	for _, p := range c.pieces {
		if p.plain != nil {
			c.parts = append(c.parts, p.plain)
			c.trailing += p.ended
			continue
		}
		t := c.queue.pop()
		if t == nil {
			c.parts = append(c.parts, pingBytes)
			c.trailing++
			continue
		}
		t.preceding, c.trailing = c.trailing, 0
		t.writing = true
		c.flight.push(t)
		c.taken = append(c.taken, t)
		c.parts = append(c.parts, t.Parts...)
	}
	return nil
}

// send sends the parts.
func (c *Conn) send() error {
	if c.vectored != nil && len(c.parts) > 1 {
		c.out = c.parts
		_, err := c.out.WriteTo(c.vectored)
		return err
	}
	p := c.joined[:0]
	switch len(c.parts) {
	case 0:
		return nil
	case 1:
		p = c.parts[0]
	default:
		for _, part := range c.parts {
			p = append(p, part...)
		}
		if c.joined = p; cap(p) > maxJoined {
			c.joined = nil
		}
	}
	n, err := c.Conn.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// endWrite ends the trips that have waited for the end of the Write.
func (c *Conn) endWrite(err error) {
	var answered list
	c.mu.Lock()
	c.stopped = c.stopped || err != nil
	for _, t := range c.taken {
		if t.writing = false; t.answered {
			answered.push(t)
		}
	}
	broken := c.sweep()
	c.mu.Unlock()
	clear(c.taken)
	clear(c.parts)
	clear(c.pieces)
	c.taken, c.parts, c.out = c.taken[:0], c.parts[:0], nil
	answered.end(Answered)
	broken.end(Broken)
}

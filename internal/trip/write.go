package trip

import (
	"io"
	"net"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// maxJoined is how much memory a Conn keeps to join parts in.
const maxJoined = 64 << 10

// writer is what the goroutine that writes owns: the one that has filled turn. All others wait for
// turn in the order in which they came. So a Flush waits for no write behind the one that has its
// trip.
type writer struct {
	turn     chan struct{}       // of capacity 1
	vectored net.Conn            // takes several parts at once, if it is not nil; set once
	commands resp.CommandScanner // of plain commands

	// Of a running Flush or Write; the memory is used again.
	taken  []*Trip
	parts  [][]byte    // all that is sent
	out    net.Buffers // the same, as a system call consumes it
	joined []byte
}

// plain is a part of the client's commands, with the place at which trips are sent.
type plain struct {
	bytes  []byte
	border int // at which a command has ended and none has begun; -1 for none
	before int // commands that end up to the border, or anywhere if there is none
	behind int // commands that end behind the border
}

// Flush sends all trips in the queue, unless another Flush or Write has taken them. If the client
// is in the middle of a command, they stay there for the Write that completes the command. An error
// closes the connection. So after Flush each trip that its caller has enqueued has an end, or will
// have one.
func (c *Conn) Flush() {
	if err := c.write(nil); err != nil {
		_ = c.Close() // also if the client has nothing to write, and would not notice
	}
}

// Write sends p, and the trips in the queue at the first border between two commands in it. It
// sends nothing if p is not a part of arrays of strings.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// write waits for its turn, and sends p and what is in the queue.
func (c *Conn) write(p []byte) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	err := errCommand
	if text, ok := c.split(p); ok {
		if err = c.take(text); err == nil {
			err = c.send()
		}
	}
	err = maskContextErr(err)
	c.endWrite(err)
	return err
}

// split finds the first border in p. It returns false if p is not a part of arrays of strings.
func (c *Conn) split(p []byte) (text plain, ok bool) {
	text = plain{bytes: p, border: -1}
	if !c.commands.Begun() {
		text.border = 0
	}
	for i := 0; i < len(p); {
		n, complete, ok := c.commands.Next(p[i:])
		if !ok {
			return text, false
		}
		i += n
		switch {
		case !complete:
		case text.border >= 0:
			text.behind++
		default:
			text.border, text.before = i, 1
		}
	}
	return text, true
}

// take makes parts of what is sent. It counts commands and takes trips, so that the reader knows of
// them before the first byte is on its way: no reply can come first.
func (c *Conn) take(text plain) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return net.ErrClosed
	}
	c.trailing += text.before
	at := max(text.border, 0)
	if at > 0 {
		c.parts = append(c.parts, text.bytes[:at])
	}
	for text.border >= 0 {
		t := c.queue.pop()
		if t == nil {
			break
		}
		t.preceding, c.trailing = c.trailing, 0
		t.writing = true
		c.flight.push(t)
		c.taken = append(c.taken, t)
		c.parts = append(c.parts, t.Parts...)
	}
	c.trailing += text.behind
	if at < len(text.bytes) {
		c.parts = append(c.parts, text.bytes[at:])
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

// endWrite ends the trips that have waited for the end of the write.
func (c *Conn) endWrite(err error) {
	var answered list
	c.mu.Lock()
	c.stopped = c.stopped || err != nil
	c.note(err)
	for _, t := range c.taken {
		if t.writing = false; t.answered {
			answered.push(t)
		}
	}
	broken := c.sweep()
	c.mu.Unlock()
	clear(c.taken)
	clear(c.parts)
	c.taken, c.parts, c.out = c.taken[:0], c.parts[:0], nil
	answered.end(Answered)
	broken.end(Broken)
}

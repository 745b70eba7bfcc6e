package trip

import (
	"cmp"
	"errors"
	"io"
	"net"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// maxKept is how much memory a Conn keeps for joined trips, and for what the client writes.
const maxKept = 64 << 10

// writer is what the goroutine that writes owns: the one that has filled turn. All others wait for
// turn in the order in which they came. So a Flush waits for no write behind the one that has its
// trip.
type writer struct {
	turn   chan struct{} // of capacity 1
	taken  []*Trip       // of a running write; the memory is used again
	joined []byte

	// Owned by Write:
	text     []byte       // of the client: what was not sent yet
	commands resp.Scanner // of text
}

// errCommand is the error of bytes that the client may not send, because they can't be counted.
var errCommand = errors.New("a command that is not an array of strings")

// Write sends the commands that p completes, behind the trips in the queue, and keeps the rest. It
// sends nothing of p if that is not a part of arrays of strings.
func (c *Conn) Write(p []byte) (int, error) {
	c.text = append(c.text, p...)
	whole, count := 0, 0
	for whole < len(c.text) {
		n, err := c.commands.Next(c.text[whole:])
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.stopped = true
			return 0, c.fail(errCommand)
		}
		if n == 0 {
			break
		}
		whole, count = whole+n, count+1
	}
	if count == 0 {
		return len(p), nil
	}
	if err := c.Enqueue(&Trip{Bytes: c.text[:whole], Commands: count}); err != nil {
		return 0, err
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	if c.text = c.text[:copy(c.text, c.text[whole:])]; cap(c.text) > maxKept && len(c.text) == 0 {
		c.text = nil
	}
	return len(p), nil
}

// Flush sends all trips in the queue, unless another write has taken them. An error closes the
// connection. So after Flush each trip that its caller has enqueued has an end, or will have one.
func (c *Conn) Flush() { _ = c.flush() }

// flush is Flush. It returns why nothing can be sent any more.
func (c *Conn) flush() error {
	c.turn <- struct{}{}
	err := c.take()
	if err == nil && len(c.taken) > 0 {
		err = maskContextErr(c.send())
		c.endWrite(err)
	}
	<-c.turn
	if err != nil {
		_ = c.Close() // also if the client has nothing to write, and would not notice
	}
	return err
}

// take takes the trips in the queue. So the reader knows of them before the first byte is on its
// way: no reply can come first.
func (c *Conn) take() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return cmp.Or(c.cause, net.ErrClosed)
	}
	for t := c.queue.pop(); t != nil; t = c.queue.pop() {
		t.writing = true
		c.flight.push(t)
		c.taken = append(c.taken, t)
	}
	return nil
}

// send sends the trips that were taken by one Write: with TLS each is a record.
func (c *Conn) send() error {
	p := c.taken[0].Bytes
	if len(c.taken) > 1 {
		p = c.joined[:0]
		for _, t := range c.taken {
			p = append(p, t.Bytes...)
		}
		if c.joined = p; cap(p) > maxKept {
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
	if err != nil {
		c.stopped = true
		_ = c.fail(err)
	}
	for _, t := range c.taken {
		if t.writing = false; t.answered {
			answered.push(t)
		}
	}
	broken := c.sweep()
	c.mu.Unlock()
	clear(c.taken)
	c.taken = c.taken[:0]
	answered.end(Answered)
	broken.end(Broken)
}

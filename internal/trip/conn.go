// Package trip sends bytes of our own on a connection that another client, rueidis, uses.
//
// rueidis encodes a command for each connection. Our bytes go to several servers alike and must be
// encoded once. So rueidis keeps the connection: it dials, logs in, reads, and closes. For all else
// an owner enqueues a Trip on the Conn, which rueidis has as its connection, and calls Flush. That
// sends all that is in the queue, on the owner's goroutine. rueidis does not know of it. rueidis
// always reads: its background reader runs as soon as a connection is made. What it reads are its
// own replies. On that goroutine the Conn decodes pushes and the replies to trips, and keeps them
// back.
//
// Trips leave in the order of Enqueue, and several may be under way. Enqueue and Flush are two
// calls, so that a lock around Enqueue alone decides the order.
//
// # Who owns what
//
// A trip and its bytes are the owner's before Enqueue and from OnEnd on, and the Conn's in between.
// OnEnd comes once:
//
//   - Answered: all replies came.
//   - Unsent: the connection was closed before the trip was taken out of the queue.
//   - Broken: the connection was closed after that. The server may have all of it, a part or
//     nothing.
//
// Close ends no trip before the connection below is closed. So what the owner then sends on the
// next connection reaches the server behind this trip. Close waits for nobody who writes: it
// interrupts them. If a Flush fails, it closes the Conn: rueidis may have nothing to write, and
// would not notice.
//
// # Traps
//
// rueidis' buffer is cut anywhere. So Write keeps the begin of a command back until its end comes,
// and a whole command waits in the queue as a trip does. The Conn records to whom the next replies
// belong before the bytes are on their way.
//
// A push may say that what follows does not count. So it is the owner's, not rueidis', and it is
// handled before anything behind it is decoded.
//
// A reply can come before the write returns that sent its command. The bytes belong to that write
// until it returns. So a trip ends with its last reply or with its write, whichever comes later. A
// trip on a closed connection also waits for its write.
//
// rueidis' keep-alive counts its own replies alone. So the owner has one of its own.
//
// # Rejected
//
// A placeholder, a command of rueidis in whose place a trip is written and whose reply stands for
// the trip's: its way through rueidis wakes three goroutines for each trip. A placeholder without a
// trip, a trip without a placeholder, and one that waits for a dial had to be dealt with.
//
// A second connection per server next to rueidis' needs dialling, handshake and keep-alive of its
// own, and an order between the two. A command of rueidis with prepared arguments is framed and
// counted string by string on each connection. A channel in each trip, and not a function, costs a
// goroutine switch for each node and trip.
package trip

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Conn is a connection on which trips are sent between a client's commands, and every reply is
// checked before anybody has it. The check is for clients that trust what they read, as rueidis
// does: a reply that no command asked for or a negative length ends the process there, in a
// goroutine that nobody else can recover, and any other length is allocated before its bytes come.
// With a Conn the server loses its connection instead: nothing reaches the client that would make
// it more than an ordinary reply.
//
// After the first protocol error every Read fails, and after the first error of Write every Write.
// The client must close the Conn then, which ends the trips. One goroutine may call Read and one
// may call Write at a time. All may call the other methods.
type Conn struct {
	net.Conn
	onPush func(resp.Value) // set once

	mu       sync.Mutex
	queue    list   // trips that no write has taken
	flight   list   // trips that were taken and lack replies
	answered uint64 // trips, all of whose replies came
	decoding bool   // the reader uses the first trip of flight
	cause    error  // why the connection failed; nil before that, and if Close was first
	stopped  bool   // nothing is sent any more
	closing  bool   // Close was called
	closed   bool   // the connection below is closed

	writer
	reader
}

// NewConn returns conn with trips, and with its replies checked. onPush takes each push, in the
// goroutine that reads. It must not block.
func NewConn(conn net.Conn, onPush func(resp.Value)) *Conn {
	return &Conn{
		Conn:   conn,
		onPush: onPush,
		writer: writer{turn: make(chan struct{}, 1), commands: resp.NewCommandScanner()},
		reader: reader{in: resp.NewInput(resp.ReplyLimits)},
	}
}

// Enqueue puts a trip behind the others. The caller then calls Flush. Enqueue returns net.ErrClosed
// if nothing can be sent any more. Then the trip is still the caller's, and nothing of it was or
// will be sent.
func (c *Conn) Enqueue(t *Trip) error {
	if t.busy || t.Commands < 1 {
		panic("trip: a trip that is under way, or without commands")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return net.ErrClosed
	}
	t.busy, t.writing, t.answered = true, false, false
	c.queue.push(t)
	return nil
}

// Close closes the connection and ends its trips. The trips that a Flush, a Write or a Read is
// using end when that returns.
func (c *Conn) Close() error {
	c.mu.Lock()
	first := !c.closing
	c.closing, c.stopped = true, true
	c.mu.Unlock()
	err := c.Conn.Close()
	if !first {
		return err
	}
	c.mu.Lock()
	c.closed = true
	broken, unsent := c.sweep(), c.queue
	c.queue = list{}
	c.mu.Unlock()
	broken.end(Broken)
	unsent.end(Unsent)
	return err
}

// Progress returns how many trips were answered, and whether others are under way. What the client
// has written counts as trips.
func (c *Conn) Progress() (answered uint64, underWay bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered, c.flight.first != nil || c.queue.first != nil
}

// Cause returns why the connection failed. It is nil before that, and if Close was first.
func (c *Conn) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// fail notes why the connection fails, and returns that. mu is held.
func (c *Conn) fail(err error) error {
	if c.cause == nil && !c.closing {
		c.cause = err
	}
	return err
}

// sweep takes the trips out of flight that nobody uses and no reply will come for. mu is held.
func (c *Conn) sweep() (broken list) {
	if !c.closed || c.decoding {
		return list{}
	}
	for c.flight.first != nil && !c.flight.first.writing {
		broken.push(c.flight.pop())
	}
	return broken
}

// maskContextErr hides an error of a context: some connections that users dial end with one, and it
// must not look like that of a dial, before which nothing was sent.
func maskContextErr(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

package trip

import "github.com/lockpipe/lockpipe/internal/resp"

// Trip is some commands that are sent together. Its owner fills it in and enqueues it on a Conn.
// From then until OnEnd it belongs to the Conn: nobody else may change it or its bytes. Several
// trips may have the same bytes. After OnEnd it may be enqueued again, on any Conn.
type Trip struct {
	Bytes    []byte   // whole commands, one after the other
	Commands int      // how many; at least 1
	Receiver Receiver // takes the replies and the end; nil for what the client writes

	busy     bool  // from Enqueue to OnEnd; set by the goroutine that has the trip
	next     *Trip // in a list; guarded by Conn.mu, or of the goroutine that ends the trip
	writing  bool  // a write has its bytes; guarded by Conn.mu
	answered bool  // all replies came; guarded by Conn.mu
}

// Receiver takes what becomes of a trip. Its methods must not block: a connection waits for them.
// They may call Enqueue, but not Flush.
type Receiver interface {
	// OnReply takes the reply to command i, counted from 0, in order. It runs on the goroutine that
	// reads the connection. The memory of the reply is valid until it returns.
	OnReply(i int, reply resp.Reply)
	// OnEnd takes how the trip ended. It is called once, behind the last OnReply, on the goroutine
	// that reads, writes or closes the connection. The Conn does not touch the trip again.
	OnEnd(end End)
}

// End is how a trip ended.
type End byte

// The ends of a trip. The zero value promises nothing.
const (
	// Broken means that some bytes of it may have been sent. OnReply has the replies that came
	// first, and the others never come.
	Broken End = iota
	// Unsent means that no byte of it was sent, and none ever will be.
	Unsent
	// Answered means that OnReply has all replies.
	Answered
)

// list is a FIFO of trips, linked by next.
type list struct{ first, last *Trip }

func (l *list) push(t *Trip) {
	t.next = nil
	if l.first == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
}

// pop takes the first trip out of the list. It returns nil if there is none.
func (l *list) pop() *Trip {
	t := l.first
	if t != nil {
		l.first, t.next = t.next, nil
	}
	return t
}

// end ends all trips of the list, which the caller has taken from the Conn. Conn.mu is not held.
func (l *list) end(end End) {
	for t := l.pop(); t != nil; t = l.pop() {
		if t.busy = false; t.Receiver != nil {
			t.Receiver.OnEnd(end)
		}
	}
}

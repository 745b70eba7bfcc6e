package trip

import "github.com/lockpipe/lockpipe/internal/resp"

// Trip is some commands that are sent together. Its owner fills it in and enqueues it on a Conn.
// From then until OnEnd it belongs to the Conn: nobody else may change it or the bytes of its
// parts. Several trips may have the same parts. After OnEnd it may be enqueued again, on any Conn.
type Trip struct {
	Parts    [][]byte // whole commands, one after the other; a part may have any border
	Commands int      // how many commands the parts are; at least 1
	Receiver Receiver // takes the replies and the end

	busy      bool  // from Enqueue to OnEnd; set by the goroutine that has the trip
	next      *Trip // in a list; guarded by Conn.mu, or of the goroutine that ends the trip
	preceding int   // see Conn.flight; guarded by Conn.mu
	writing   bool  // a Flush or Write has its parts; guarded by Conn.mu
	answered  bool  // all replies came; guarded by Conn.mu
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
		t.busy = false
		t.Receiver.OnEnd(end)
	}
}

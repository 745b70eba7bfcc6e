// Package line has the places of clients in the lines for keys. A node keeps a line for each key
// that clients wait for: first come, first served. The line is advice: who has a key is up to the
// votes.
package line

import "time"

// Ask asks a node for the client's place in the line for a key, or says that the client leaves it.
type Ask struct {
	Key    string // of the lock, without the prefix
	Ticket int64  // of the client's place; 0 if it has none
	Leave  bool
	// Answered takes what the node says. It must not block. It is nil if the client leaves.
	Answered func(Place)
}

// Place is a client's place in a line, as a node says. The zero value stands for no answer.
type Place struct {
	// Known: the node has answered.
	Known bool
	// Ticket is the client's, 0 if the line is full. Before is the ticket of the client before it,
	// 0 if it is the first, and Ahead is how many are before it.
	Ticket, Before int64
	Ahead          int
	// Until is when the key ends, if nobody extends it; zero if it never does. Free: it is not
	// there.
	Until time.Time
	Free  bool
	// Token is who has the key, as in watch.State, and Node is the name of the node.
	Token, Node string
}

// First reports whether nobody is before the client.
func (p *Place) First() bool { return p.Ticket > 0 && p.Before == 0 }

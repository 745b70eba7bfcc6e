// Package line asks nodes about keys for calls that wait.
//
// A node keeps a line for each key that clients wait for: first come, first served. Places has the
// places of this process in these lines. The line is advice: who has a key is up to the votes. A
// Watch wakes who waits when a key has changed on a node. Node asks one node about both.
package line

import (
	"math"
	"time"
)

// Forever is the time left of a key that never ends, and the delay of a timer that must not fire.
const Forever = time.Duration(math.MaxInt64)

// Ask asks a node for the client's place in the line for a key, or says that the client leaves it.
type Ask struct {
	Key    string // of the lock, without the prefix
	Ticket int64  // of the client's place; 0 if it has none
	// Answered takes what the node says. It must not block. It is nil if the client leaves.
	Answered func(Place)
	watches  bool // it is for a Watch instead
}

// Place is what a node says of a key, and of the client's place in the line for it if the node was
// asked for that. The zero value stands for no answer.
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
	// Token is that of the key's value: who has it. It is empty if the key is not there, has no
	// string, or may not be read. Node is the name of the node.
	Token, Node string
	// Turn: it may be the client's turn. The key is free for the first client, or the client before
	// has left, or the node can no longer report that. Places sets it.
	Turn bool
	// Silent: the node does not report changes to a Watch, or not to this client.
	Silent bool
}

// First reports whether nobody is before the client.
func (p *Place) First() bool { return p.Known && p.Ticket > 0 && p.Before == 0 }

// Left returns how long the key lasts: 0 if it is not there or has expired since.
func (p *Place) Left() time.Duration {
	switch {
	case p.Free:
		return 0
	case p.Until.IsZero():
		return Forever
	}
	return max(0, time.Until(p.Until))
}

// lasts takes the TTL of the key, as by PTTL.
func (p *Place) lasts(ttl int64) {
	p.Free, p.Until = ttl == -2, time.Time{}
	if ttl >= 0 && ttl <= int64(Forever/time.Millisecond) {
		p.Until = time.Now().Add(time.Duration(ttl) * time.Millisecond)
	}
}

// Package watch registers which keys are watched on which node, and notifies the watches when a key
// may have become free. The exchange with the server is a function that the node hands in.
package watch

import (
	"math"
	"sync/atomic"
	"time"
)

// Forever is the TTL of a key that never expires.
const Forever = time.Duration(math.MaxInt64)

// Watch notifies its owner when one key may have become free on a node.
//
// Subscribe asks a node how long the key lasts, and for a report of its next change. wake is called
// when the node has replied, when it reports a change, and when it can no longer report one. After
// each call the owner looks at State. While TTL is known, the watch is still active. Otherwise the
// owner tries for the key, or subscribes again. A change may be an extension by the holder. Expiry
// is reported late or never, so the owner needs a timer for the TTL.
//
// All methods are safe for concurrent use. None blocks.
type Watch struct {
	key    string // with the prefix
	wake   func()
	nodes  []*Registry  // in configuration order
	node   atomic.Int32 // the node of the last Subscribe, from 1; 0 before the first
	closed atomic.Bool
}

// New returns a watch of one key, given with its prefix, on any of the nodes. It sends nothing
// before Subscribe. Close ends it.
//
// wake must not block. It is called from the goroutines that read from the nodes, from those that
// flush, and from inside Subscribe. It is also called more often than there is something new, and
// several times at once.
func New(nodes []*Registry, key string, wake func()) *Watch {
	return &Watch{key: key, wake: wake, nodes: nodes}
}

// Subscribe asks the node with this index for the TTL of the key, and for a report of its next
// change. wake is called when the reply is there, at once if the node is down or closed. Calling it
// again asks again, unless a reply is awaited already. A change is reported once; after that the
// watch is not active on that node. The watch may be active on several nodes, and State is of the
// last one.
func (w *Watch) Subscribe(node int) {
	w.node.Store(int32(node) + 1)
	w.nodes[node].subscribe(w)
}

// State is what a watch knows of its key at one moment, from the node of the last Subscribe. It is
// zero before the first one.
type State struct {
	// Active: a reply is to come, or the node has replied. When it turns false, the key may have
	// been changed: the node reported that, its connection was lost, or the watch or the node was
	// closed.
	Active bool
	// Known: the watch is active, and the node has replied. The fields below are zero otherwise.
	Known bool
	// TTL is how long the key lasts. It is 0 if the key is not there or has expired since, and
	// Forever if the key never expires.
	TTL time.Duration
	// Notifies: the node will report a change of the key. If it is false, the node does not support
	// that or does not permit it. Then the owner has to ask again from time to time.
	Notifies bool
	// Token is that of the key's value: who has it. It is empty if the key is not there, has no
	// string, or may not be read.
	Token string
	// Node is the name of the node: its address.
	Node string
}

// State returns what is known now.
func (w *Watch) State() State {
	node := w.node.Load()
	if node == 0 {
		return State{}
	}
	r := w.nodes[node-1]
	reply, registered := r.reply(w)
	if !registered || !reply.Known {
		return State{Active: registered}
	}
	s := State{
		Active: true, Known: true, TTL: Forever, Notifies: reply.Notifies, Token: reply.Token,
		Node: r.node.Name,
	}
	if !reply.Until.IsZero() {
		s.TTL = max(0, time.Until(reply.Until))
	}
	return s
}

// Close ends the watch on all nodes. A call of wake that is under way may end after it, and no
// other call comes. Closing again does nothing.
func (w *Watch) Close() {
	if w.closed.Swap(true) || w.node.Load() == 0 {
		return
	}
	for _, r := range w.nodes {
		r.unsubscribe(w)
	}
}

// notify wakes the owner, unless the watch is closed.
func (w *Watch) notify() {
	if !w.closed.Load() {
		w.wake()
	}
}

// Package watch registers which keys are watched on which node, and notifies the watches when a key
// may have become free. The exchange with the server is a function that the node hands in.
package watch

import (
	"math"
	"sync/atomic"
	"time"
)

// Forever is what Watch.TTL returns for a key that never expires.
const Forever = time.Duration(math.MaxInt64)

// Watch notifies its owner when one key may have become free on a node.
//
// Subscribe asks a node how long the key lasts, and for a report of its next change. wake is called
// when the node has replied, when it reports a change, and when it can no longer report one. After
// each call the owner looks at TTL. While TTL is known, the watch is still active. Otherwise the
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
// watch is not active on that node. The watch may be active on several nodes, and TTL is for the
// last one.
func (w *Watch) Subscribe(node int) {
	w.node.Store(int32(node) + 1)
	w.nodes[node].subscribe(w)
}

// TTL returns how long the key lasts on the node of the last Subscribe. It is 0 if the key is not
// there or has expired since, and Forever if the key never expires. It is not known before the
// reply, if there was none, and when the watch is not active any more: because the node reported a
// change, its connection was lost, or the watch or the node was closed.
func (w *Watch) TTL() (d time.Duration, known bool) {
	reply, _ := w.state()
	switch {
	case !reply.Known:
		return 0, false
	case reply.Until.IsZero():
		return Forever, true
	}
	return max(0, time.Until(reply.Until)), true
}

// Token returns the value of the key on the node of the last Subscribe: who has it. It is "" while
// TTL is not known, and if the key is not there, has no string, or may not be read.
func (w *Watch) Token() string {
	reply, _ := w.state()
	return reply.Token
}

// Notifies reports whether the node of the last Subscribe will report a change of the key. If it is
// false and TTL is known, the node does not support that or does not permit it. Then the owner has
// to ask again from time to time.
func (w *Watch) Notifies() bool {
	reply, _ := w.state()
	return reply.Notifies
}

// Active reports whether a reply is to come, or TTL is known. When it turns false, the key may have
// been changed.
func (w *Watch) Active() bool {
	_, registered := w.state()
	return registered
}

// state returns the reply to the last Subscribe, and whether the watch is registered there.
func (w *Watch) state() (reply Reply, registered bool) {
	node := w.node.Load()
	if node == 0 {
		return Reply{}, false
	}
	return w.nodes[node-1].state(w)
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

package multiplex

import (
	"math"
	"sync/atomic"
	"time"
)

// Forever is what Watch.Left returns of a key that never ends by itself.
const Forever = time.Duration(math.MaxInt64)

// Watch tells when one key may have become free on a node.
//
// Arm asks a node how long the key lasts, and to tell when it is changed. wake is called when the
// node has answered, when it tells of a change, and when it can tell no longer. After each call the
// owner looks at Left: while that knows the time left, the watch is still armed; otherwise the
// owner tries for the key, or arms again. A change may be a renewal by the holder, and expiry is
// told late or never: a timer for the time left belongs to the owner.
//
// All methods are safe for concurrent use. None blocks.
type Watch struct {
	mux    *Mux
	key    string // with the prefix
	wake   func()
	node   atomic.Int32 // the node of the last Arm, from 1; 0 before the first
	closed atomic.Bool
}

// Watch returns a watch of one key, given with its prefix. Nothing is sent before Arm. wake must
// not block and must not call methods of the Mux that wait: it is called from the goroutines that
// read from the nodes, from those that flush, and from inside Arm; also more often than there is
// something new, and several times at once. Close ends the watch.
func (m *Mux) Watch(key string, wake func()) *Watch {
	return &Watch{mux: m, key: key, wake: wake}
}

// Arm asks the node at this place of the configuration for the time the key has left, and to tell
// of its next change. wake is called when the answer is there, at once where the node is down or
// the Mux is closed. Arming again asks again, unless an answer is owed already. A change is told
// once; after that the watch is not armed on that node. It may be armed on several nodes, and Left
// tells of the last one.
func (w *Watch) Arm(node int) {
	n := w.mux.nodes[node]
	w.node.Store(int32(node) + 1)
	a, owed := n.watches.list(w)
	switch {
	case owed:
		return
	case a == nil:
	case n.requestWatch(a) == nil:
		return
	default:
		n.watches.strike(a)
	}
	w.call()
}

// Left returns how long the key lasts on the node of the last Arm: 0 where it is not there, or has
// run out since; Forever where it does not end by itself. It is not known before the answer, where
// there was none, and when the watch is not armed any more: because the node told of a change, its
// connection was lost, or the watch or the Mux was closed.
func (w *Watch) Left() (d time.Duration, known bool) {
	r := w.remains()
	switch {
	case !r.known:
		return 0, false
	case r.until.IsZero():
		return Forever, true
	}
	return max(0, time.Until(r.until)), true
}

// Told reports whether the node of the last Arm will tell of a change of the key. Where it is false
// and Left is known, the node does not support that or does not permit it, and the owner has to ask
// again from time to time.
func (w *Watch) Told() bool { return w.remains().told }

// Armed reports whether an answer is to come, or Left is known. When it is not so any more, the key
// may have been changed.
func (w *Watch) Armed() bool {
	node := w.node.Load()
	return node != 0 && w.mux.nodes[node-1].watches.listed(w)
}

// remains is the answer to the last Arm while that stands.
func (w *Watch) remains() remains {
	node := w.node.Load()
	if node == 0 {
		return remains{}
	}
	return w.mux.nodes[node-1].watches.remains(w)
}

// Close ends the watch on all nodes. A call of wake that is under way may end after it, and no
// other comes. Closing again does nothing.
func (w *Watch) Close() {
	if w.closed.Swap(true) || w.node.Load() == 0 {
		return
	}
	for _, n := range w.mux.nodes {
		if a := n.watches.end(w); a != nil {
			n.watchPipeline.Cancel(&a.call)
		}
	}
}

// call tells the owner, unless the watch is closed.
func (w *Watch) call() {
	if !w.closed.Load() {
		w.wake()
	}
}

package line

import (
	"maps"
	"slices"

	"github.com/lockpipe/lockpipe/batch"
)

// Watch wakes its owner when one key may have become free on a node, or the turn of a ticket has
// come.
//
// Wake is called when the node has answered, when it reports a change, and when it can no longer
// report one. After each call the owner looks at State. A change is reported once: then the watch
// is no longer active, and the owner tries for the key, or makes a new watch. It may be an
// extension by the holder. Expiry is reported late or never, so the owner needs a timer for it.
//
// A watch is registered before anything is sent for it, because the node may report a change before
// its answer is read. It is registered once: a late answer does not make it active again.
//
// All methods are safe for concurrent use. None blocks.
type Watch struct {
	of   *Node
	name string // of the key, with the prefix
	ask  Ask
	wake func()

	// Guarded by the node's mu:

	asked  *batch.Round[Ask, struct{}] // which has ask, while the watch is active
	active bool
	answer Place
}

// Watch asks the node how long a key lasts, and for a report of its next change. The key is given
// without the prefix. If ticket is not 0, the watch is of the turn of this ticket in the line for
// the key. If the node is down or closed, the watch is not active. Close ends it.
//
// wake must not block. It is called from the goroutines that read from the node, and without a lock
// of the node.
func (n *Node) Watch(key string, ticket int64, wake func()) *Watch {
	w := &Watch{of: n, name: n.watched(key, ticket), wake: wake}
	w.ask = Ask{Key: key, Ticket: ticket, Answered: w.answered, watches: true}
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.asked, w.active = n.Ask(&w.ask); w.active {
		n.watches[w.name] = append(n.watches[w.name], w)
	}
	return w
}

// State returns what the node says of the key. The answer is zero while it is to come. active: the
// node will report the next change, unless it is silent. If that turns false, the key may have been
// changed. The node has reported that, its connection was lost, or the watch or the node was
// closed.
func (w *Watch) State() (answer Place, active bool) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.answer, w.active
}

// Close ends the watch. A call of wake that is under way may end after it. Closing again does
// nothing.
func (w *Watch) Close() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.active {
		w.of.log.Cancel(w.asked, &w.ask)
		w.end()
	}
}

// end takes an active watch off. The node's mu is held.
func (w *Watch) end() {
	all := w.of.watches
	w.active, w.answer = false, Place{}
	all[w.name] = slices.DeleteFunc(all[w.name], func(o *Watch) bool { return o == w })
	if len(all[w.name]) == 0 {
		delete(all, w.name)
	}
}

// answered takes the node's answer. Who closed the watch is not woken, and who was told of a change
// is not told again.
func (w *Watch) answered(p Place) {
	w.of.mu.Lock()
	active := w.active
	switch {
	case !active:
	case p.Known:
		w.answer = p
	default:
		w.end()
	}
	w.of.mu.Unlock()
	if active {
		w.wake()
	}
}

// Invalidated takes the names of keys that have changed; nil stands for all keys.
func (n *Node) Invalidated(names []string) {
	n.mu.Lock()
	if names == nil {
		names = slices.Collect(maps.Keys(n.watches))
	}
	var changed []*Watch
	for _, name := range names {
		changed = append(changed, slices.Clone(n.watches[name])...)
		delete(n.watches, name)
	}
	for _, w := range changed {
		w.active, w.answer = false, Place{}
	}
	n.mu.Unlock()
	for _, w := range changed {
		w.wake()
	}
}

package watch

import (
	"context"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/batch"
)

const (
	// maxQuery is the most keys that one flush asks the node for.
	maxQuery = 128
	// maxWaiting is the most subscriptions that wait to be sent to one node.
	maxWaiting = 1 << 18
)

// Reply is what a node says of one key. The zero value stands for no reply.
type Reply struct {
	// Known says that the node has replied.
	Known bool
	// Notifies says that the node will report the next change of the key.
	Notifies bool
	// Until is when the key ends; zero if it never does.
	Until time.Time
	// Token is who has the key; "" if nobody has it, or that is not known.
	Token string
}

// Node is what a Registry needs of its node. All of it is required.
type Node struct {
	// Name is how users know the node: its address.
	Name string
	// Down reports whether nothing can be sent now. It must not block.
	Down func() bool
	// Query makes one flush to the node: for each key it asks how long the key lasts, who has it,
	// and for a report of the next change. It sets replies[i] for keys[i]. A reply that it leaves
	// zero is none. It must not keep the slices.
	Query func(keys []string, replies []Reply)
}

// Registry has the watches of one node, by key.
//
// Invariants:
//
//  1. A subscription is registered before anything is sent for it, because the node may report a
//     change before its reply is read.
//  2. A subscription is registered once. After a change it is off, and a late reply does not bring
//     it back: the next Subscribe makes a new one.
//  3. A watch is notified after mu is released. So wake may call the methods of a Watch.
//
// All methods are safe for concurrent use.
type Registry struct {
	node Node
	log  *batch.Log[entry, struct{}] // with one reader: the node

	mu     sync.Mutex // guards all below, and the entries; a leaf but for the log
	byKey  map[string]*entry
	closed bool
}

// entry is one watch on one node.
type entry struct {
	watch *Watch

	// Guarded by the registry's mu:

	place      batch.Place[entry, struct{}]
	next       *entry // another watch of the same key; does not change once the entry is off
	awaited    bool   // a reply is to come
	registered bool
	reply      Reply
}

// NewRegistry returns a Registry without watches and without goroutines.
func NewRegistry(node Node) *Registry {
	r := &Registry{node: node}
	// One flush at a time takes a single slot of the connection's ring.
	r.log = batch.New(batch.Config[entry, struct{}]{
		Readers: 1, Quorum: 1, Weight: func(*entry) int { return 1 }, Read: r.flush,
		MaxWeight: maxQuery, Window: 1, Limit: maxWaiting,
	})
	return r
}

// flush asks the node for the keys of the entries, and takes the replies.
func (r *Registry) flush(t *batch.Trip[entry, struct{}]) {
	var entries []*entry
	for _, round := range t.Rounds {
		entries = append(entries, round.Ops()...)
	}
	keys, replies := make([]string, len(entries)), make([]Reply, len(entries))
	for i, e := range entries {
		keys[i] = e.watch.key
	}
	r.node.Query(keys, replies)
	for i, e := range entries {
		r.handleReply(e, replies[i])
	}
}

// handleReply takes the node's reply, and notifies the watch. An entry that is off was notified
// when it was taken off.
func (r *Registry) handleReply(e *entry, reply Reply) {
	r.mu.Lock()
	registered := e.registered
	if registered {
		e.awaited, e.reply = false, reply
		if !reply.Known {
			r.remove(e)
		}
	}
	r.mu.Unlock()
	if registered {
		e.watch.notify()
	}
}

// subscribe registers the watch and sends it to the node. If that is not possible, the watch is
// notified at once. It sends nothing if a reply is awaited already.
func (r *Registry) subscribe(w *Watch) {
	e, awaited := r.register(w)
	switch {
	case awaited:
		return
	case e == nil:
	case !r.node.Down() && r.ask(e):
		return
	default:
		r.mu.Lock()
		r.remove(e)
		r.mu.Unlock()
	}
	w.notify()
}

// ask has the node asked for an entry. It returns false if that is not possible.
func (r *Registry) ask(e *entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	place, err := r.log.Append(e, batch.All)
	e.place = place
	return err == nil
}

// register returns the entry of the watch, a new one if there is none. awaited reports whether a
// reply was awaited before. e is nil if the registry or the watch is closed.
func (r *Registry) register(w *Watch) (e *entry, awaited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || w.closed.Load() {
		return nil, false
	}
	if e = r.find(w); e == nil {
		if r.byKey == nil {
			r.byKey = make(map[string]*entry)
		}
		e = &entry{watch: w, registered: true, next: r.byKey[w.key]}
		r.byKey[w.key] = e
	}
	awaited, e.awaited = e.awaited, true
	e.reply = Reply{}
	return e, awaited
}

// find returns the watch's entry; nil if there is none. mu is held.
func (r *Registry) find(w *Watch) *entry {
	e := r.byKey[w.key]
	for e != nil && e.watch != w {
		e = e.next
	}
	return e
}

// reply returns the last reply for the watch, and whether the watch is registered.
func (r *Registry) reply(w *Watch) (reply Reply, registered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.find(w); e != nil {
		return e.reply, true
	}
	return Reply{}, false
}

// unsubscribe takes a closed watch off. It also takes the watch out of the backlog, if it waits
// there.
func (r *Registry) unsubscribe(w *Watch) {
	r.mu.Lock()
	e := r.find(w)
	if e != nil {
		r.log.Cancel(e.place)
		r.remove(e)
	}
	r.mu.Unlock()
}

// remove takes an entry off, if it is not off yet. mu is held.
func (r *Registry) remove(e *entry) {
	if !e.registered {
		return
	}
	e.registered = false
	first := r.byKey[e.watch.key]
	switch {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next == nil:
		delete(r.byKey, e.watch.key)
	default:
		r.byKey[e.watch.key] = e.next
	}
}

// Changed notifies the watches of a key, and takes them off.
func (r *Registry) Changed(key string) {
	r.mu.Lock()
	first := r.byKey[key]
	delete(r.byKey, key)
	first.unlink()
	r.mu.Unlock()
	first.notifyAll()
}

// DropAll notifies all watches and takes them off: the node will report no change to them.
func (r *Registry) DropAll() { r.dropAll(false) }

func (r *Registry) dropAll(closing bool) {
	r.mu.Lock()
	r.closed = r.closed || closing
	all := r.byKey
	r.byKey = nil
	for _, first := range all {
		first.unlink()
	}
	r.mu.Unlock()
	for _, first := range all {
		first.notifyAll()
	}
}

// Close refuses watches from now on, and notifies all that there are. It does not wait for the
// flush under way: see Wait.
func (r *Registry) Close() {
	ended, end := context.WithCancel(context.Background())
	end()
	_ = r.log.Close(ended)
	r.dropAll(true)
}

// Wait returns when the flush under way has ended. It comes after Close.
func (r *Registry) Wait() { _ = r.log.Close(context.Background()) }

// unlink marks e and the entries behind it as off. The registry's mu is held.
func (e *entry) unlink() {
	for ; e != nil; e = e.next {
		e.registered = false
	}
}

// notifyAll notifies the watches of e and of the entries behind it, which were taken off together.
func (e *entry) notifyAll() {
	for ; e != nil; e = e.next {
		e.watch.notify()
	}
}

package line

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// contentionTTL is how long the process remembers that others want a key. While it waits, it
	// learns that again at least each second.
	contentionTTL = 2 * time.Second
	// maxLines is for how many keys it does, beside those that calls wait for.
	maxLines = 1 << 12
)

// Places has the places of this process in the lines for keys. There is one place for a key,
// whoever waits for it here: the call that contends for the key, and the next one if that gives up.
// A reservation and the lease keep the place. Its release ends it, which tells the next client.
//
// All methods are safe for concurrent use.
type Places struct {
	any atomic.Int64 // how many keys are known: if none, nothing else is read

	mu      sync.Mutex // guards all below; a leaf but for the logs of the nodes
	byKey   map[string]*inLine
	evictAt int // how many keys make it worth to look which of them can be forgotten
}

// NewPlaces returns no places.
func NewPlaces() *Places { return &Places{byKey: make(map[string]*inLine)} }

// inLine is what is known of the line for one key.
type inLine struct {
	node      *Node
	place     Place
	asking    bool
	left      bool   // the process wants no place, or has left it
	wake      func() // of the call that asked last
	contended time.Time
	watch     *Watch // of the key for the first client, else of the ticket before; nil: none
}

// Ask asks the node for a place, or renews the one that there is there, and watches what the turn
// of the process waits for. wake is called when the node has answered, or does not, later than Ask
// returns, and each time that State may say more. It must not block. If the node can't be asked,
// State says so at once.
func (l *Places) Ask(key string, node *Node, wake func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byKey[key]
	if in != nil && in.node != node {
		l.leave(key, in)
		in = nil
	}
	if in == nil {
		l.evict(time.Now())
		in = &inLine{node: node}
		l.byKey[key] = in
		l.any.Store(int64(len(l.byKey)))
	}
	in.left, in.wake = false, wake
	l.send(key, in)
}

// Renew renews the place for a key, if there is one.
func (l *Places) Renew(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in := l.byKey[key]; in != nil && !in.left && in.place.Ticket > 0 {
		l.send(key, in)
	}
}

// send asks the node, unless an answer is to come. mu is held.
func (l *Places) send(key string, in *inLine) {
	if in.asking {
		return
	}
	in.asking = true
	answered := func(p Place) {
		l.mu.Lock()
		l.take(key, in, p)
		wake := in.wake
		l.mu.Unlock()
		wake()
	}
	ask := &Ask{Key: key, Ticket: in.place.Ticket, Answered: answered}
	if _, sent := in.node.Ask(ask); !sent {
		l.take(key, in, Place{})
	}
}

// take takes a place. If nobody wants it any more, the process leaves it. mu is held.
func (l *Places) take(key string, in *inLine, p Place) {
	ticket := in.place.Ticket
	if in.asking, in.place = false, p; !p.Known {
		in.place.Ticket = ticket // it may still be there
	}
	switch {
	case !p.Known:
	case p.First() && p.Free:
		in.contended = time.Time{}
	default:
		in.contended = time.Now()
	}
	if in.left || l.byKey[key] != in {
		l.leave(key, in)
	} else {
		l.watch(key, in)
	}
}

// watch watches what the turn of the process waits for, if the node has said what that is. A watch
// that will report it stays. mu is held.
func (l *Places) watch(key string, in *inLine) {
	p := &in.place
	if w := in.watch; w != nil && p.Known && w.ask.Ticket == p.Before {
		if is, active := w.State(); active && !is.Silent && (p.First() || !is.Known || is.Free) {
			return
		}
	}
	in.unwatch()
	if p.Known && p.Ticket > 0 && (!p.First() || !p.Free) {
		in.watch = in.node.Watch(key, p.Before, func() { l.watched(in) })
	}
}

// watched takes what a watch has to say. The answer of a watch of the key is newer than the place.
func (l *Places) watched(in *inLine) {
	l.mu.Lock()
	if in.watch != nil && in.place.First() {
		if is, active := in.watch.State(); active && is.Known {
			in.place.Until, in.place.Free, in.place.Token = is.Until, is.Free, is.Token
		}
	}
	wake := in.wake
	l.mu.Unlock()
	wake()
}

func (in *inLine) unwatch() {
	if in.watch != nil {
		in.watch.Close()
		in.watch = nil
	}
}

// State returns what is known of the place for a key on this node, and of the one who has the key.
// asking: an answer is to come.
func (l *Places) State(key string, node *Node) (p Place, asking bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byKey[key]
	if in == nil || in.node != node {
		return Place{}, false
	}
	p = in.place
	p.Turn = p.First() && p.Free
	if in.watch != nil {
		is, active := in.watch.State()
		p.Silent = is.Silent
		p.Turn = p.Turn || !active || !p.First() && is.Known && !is.Free
	}
	return p, in.asking
}

// Any reports whether anything is known of any line.
func (l *Places) Any() bool { return l.any.Load() > 0 }

// Leave ends the place for a key, if there is one.
func (l *Places) Leave(key string) {
	if !l.Any() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if in := l.byKey[key]; in != nil {
		l.leave(key, in)
		if in.contended.IsZero() {
			l.forget(key)
		}
	}
}

// forget forgets a key. mu is held.
func (l *Places) forget(key string) {
	delete(l.byKey, key)
	l.any.Store(int64(len(l.byKey)))
}

// LeaveAll ends all places.
func (l *Places) LeaveAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, in := range l.byKey {
		l.leave(key, in)
	}
}

// leave tells the node. While an answer is to come, that is left to answered. mu is held.
func (l *Places) leave(key string, in *inLine) {
	in.unwatch()
	if in.left = true; in.asking {
		return
	}
	if !in.contended.IsZero() {
		in.contended = time.Now()
	}
	if ticket := in.place.Ticket; ticket > 0 {
		in.place = Place{}
		in.node.Ask(&Ask{Key: key, Ticket: ticket})
	}
}

// Contended returns one of these keys that others want, as far as this process knows; "" if there
// is none.
func (l *Places) Contended(keys []string, now time.Time) string {
	if !l.Any() {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		in := l.byKey[key]
		switch {
		case in == nil:
		case now.Sub(in.contended) < contentionTTL:
			return key
		case in.left && !in.asking:
			l.forget(key)
		}
	}
	return ""
}

// evict makes room for one more key: it forgets keys that nobody wanted of late. mu is held.
func (l *Places) evict(now time.Time) {
	if len(l.byKey) < max(l.evictAt, maxLines) {
		return
	}
	maps.DeleteFunc(l.byKey, func(_ string, in *inLine) bool {
		return in.left && !in.asking && now.Sub(in.contended) > contentionTTL
	})
	l.evictAt = 2 * len(l.byKey)
}

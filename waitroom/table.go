// Package waitroom keeps in order who of this process waits for which keys, so that only one at a
// time competes for a key with other processes. It knows neither Redis nor clocks.
package waitroom

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Table is a queue for each key that somebody waits for. A waiter stands in the queues of all its
// keys; it is first when it is at the head of each of them. Keys may also change hands within the
// process: a holder gives what it holds to the first waiter.
//
// Invariants:
//
//  1. At most one waiter is first for a key.
//  2. Every queue is in the order of Enter. So whoever entered before all others is first, and
//     however the sets of keys overlap, there is no deadlock: if those who are first leave again,
//     everybody becomes first.
//  3. A waiter that becomes first after its Enter is woken, by the Leave that made it first,
//     whether that one had succeeded or given up.
//  4. A gift is returned exactly once: by Take, or by the Leave of the waiter that it was given to.
//  5. A hint is never older than the last Nudge for a key at whose head the waiter stands: a
//     release is not slept through.
//  6. A key for which nobody waits takes no memory, and neither does the room it once took among
//     very many.
//
// Outline: Enter appends a place to the queue of each key and counts in blocked at how many of them
// somebody is before it. Leave unlinks the places; whoever comes to a head by that is blocked once
// less, and at zero it is first. Places are linked through the waiter itself, and the map knows
// only the head of each queue: entering and leaving take no time that grows with the queue.
//
// What lost: a queue for each set of keys (sets that overlap would compete with each other on the
// nodes, and {1,2} could starve behind {1} and {2}), entering the queues one by one in the order of
// the keys (a waiter would block others at its first key while it waits at its last, and who came
// first would not be first), a lock for each key (the work under the lock is a few pointers), and a
// slice or a channel for each queue (memory for each key, and a search for whoever gives up in the
// middle).
//
// The zero value is ready. It must not be copied. All methods are safe for concurrent use.
type Table struct {
	waiting atomic.Int64 // waiters; changed under mu, before the call that changed it returns

	mu    sync.Mutex        // guards all below and in the waiters; Wake is not called under it
	rooms map[string]*place // the head of each queue; nil until somebody enters
	peak  int               // the most keys since rooms was made
}

// Waiter is one that waits for its keys. It is embedded by its owner, so that waiting for a single
// key costs no allocation. The zero value with Wake set is ready for Enter; after Leave it may
// enter again. It must not be copied while it waits.
type Waiter struct {
	// Wake tells that something changed: it became first, it was given something, or its keys may
	// be free. It is set once, before Enter. It is called without locks held, from the goroutine of
	// whoever caused it, and must not block; it may be spurious, come from several goroutines at
	// once, and come even after Leave.
	Wake func()

	// Guarded by the table's mu:
	places  []place   // in the queue of each key; nil while it does not wait
	one     [1]place  // memory of places if there is a single key
	blocked int       // at how many places somebody is before it
	hint    time.Time // see Hint
	gift    any       // given and not taken; nil: none
}

// place is where a waiter stands in the queue of one key. The queue is a ring: before its head is
// its end.
type place struct {
	waiter     *Waiter
	key        string
	prev, next *place
}

const (
	// large is how many keys make the map worth shrinking: a Go map keeps its memory when entries
	// are deleted.
	large = 1024
	// shrinkAt is the part of the peak at which it is shrunk: what remains is moved, which must be
	// little beside what was deleted.
	shrinkAt = 64
)

// Enter lets w join the queue of every key in one step; false: limit waiters or more wait already,
// and nothing has happened. There is at least one key, and none twice; the slice is not kept. w
// must not wait already. Whether w is first at once is to be asked with First after Enter; when it
// becomes so later, it is woken.
func (t *Table) Enter(w *Waiter, keys []string, limit int) (ok bool) {
	places := w.one[:]
	if len(keys) != 1 {
		places = make([]place, len(keys))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(t.waiting.Load()) >= limit {
		return false
	}
	t.waiting.Add(1)
	if t.rooms == nil {
		t.rooms = make(map[string]*place)
	}
	w.places = places
	for i, key := range keys {
		w.places[i] = place{waiter: w, key: key}
		if t.join(&w.places[i]) {
			w.blocked++
		}
	}
	t.peak = max(t.peak, len(t.rooms))
	return true
}

// join puts p at the end of its queue, and reports whether somebody is before it. mu is held.
func (t *Table) join(p *place) (blocked bool) {
	head := t.rooms[p.key]
	if head == nil {
		p.prev, p.next = p, p
		t.rooms[p.key] = p
		return false
	}
	p.prev, p.next = head.prev, head
	p.prev.next, head.prev = p, p
	return true
}

// remove takes p out of its queue, and returns who comes to the head by that; nil: nobody. mu is
// held.
func (t *Table) remove(p *place) (heir *Waiter) {
	p.prev.next, p.next.prev = p.next, p.prev
	switch {
	case t.rooms[p.key] != p:
		return nil // who is behind it has the same head before it as ever
	case p.next == p:
		delete(t.rooms, p.key)
		return nil
	}
	t.rooms[p.key] = p.next
	return p.next.waiter
}

// First reports whether w waits and is at the head of the queue of each of its keys.
func (t *Table) First(w *Waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return w.first()
}

// first is First. mu is held.
func (w *Waiter) first() bool { return w.places != nil && w.blocked == 0 }

// Leave takes w out of all queues. Who becomes first by that is woken. For a w that does not wait,
// nothing happens.
//
// until is for those behind w, see Hint: whoever leaves because it holds the keys says until when,
// at most, and must leave before the keys can be released, since the Nudge of the release must find
// whom until was told to. Whoever gives up says zero; not what Hint told it, since a Nudge may have
// come in between.
//
// A gift that w was given and has not taken is returned: the caller holds these keys now. It calls
// Give for whoever is first now, and where that fails it releases the keys and calls Nudge. In this
// case until is not passed on, whatever it is: those behind w would sleep on the word of one that
// is about to let go. They may try in vain instead, until Give or Nudge wakes them again.
func (t *Table) Leave(w *Waiter, until time.Time) (gift any) {
	var few [4]*Waiter // keeps the usual case off the heap
	gift, heirs := t.leave(w, until, few[:0])
	for _, heir := range heirs {
		heir.Wake()
	}
	return gift
}

// leave is Leave but for the waking: it appends to heirs who is to be woken.
func (t *Table) leave(w *Waiter, until time.Time, heirs []*Waiter) (any, []*Waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.places == nil {
		return nil, heirs
	}
	gift := w.gift
	if gift != nil {
		until = time.Time{}
	}
	for i := range w.places {
		heir := t.remove(&w.places[i])
		if heir == nil {
			continue
		}
		heir.tell(until)
		if heir.blocked--; heir.blocked == 0 {
			heirs = append(heirs, heir)
		}
	}
	// Keeps nobody alive.
	w.places, w.one, w.blocked, w.hint, w.gift = nil, [1]place{}, 0, time.Time{}, nil
	t.waiting.Add(-1)
	t.shrink()
	return gift, heirs
}

// tell takes the until of a Leave that brought w to the head of a queue. Of several the latest
// counts, since w needs all of its keys; but where nothing is known, w is to try. mu is held.
func (w *Waiter) tell(until time.Time) {
	if until.IsZero() || until.After(w.hint) {
		w.hint = until
	}
}

// shrink gives back the memory of a map that was large and has few keys left. mu is held.
func (t *Table) shrink() {
	if t.peak < large || len(t.rooms) > t.peak/shrinkAt {
		return
	}
	rooms := make(map[string]*place, len(t.rooms))
	maps.Copy(rooms, t.rooms)
	t.rooms, t.peak = rooms, len(rooms)
}

// Followed reports whether somebody stands behind w, which waits, in the queue of its first key.
func (t *Table) Followed(w *Waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.places == nil {
		return false
	}
	p := &w.places[0]
	return p.next != t.rooms[p.key]
}

// Hint returns until when the keys of w, which is first, are held in this process at most, as the
// Leave that made it first said. Of several that left before w the latest until counts. Zero:
// nothing is known, so it is worth a try; that is so also if w was first from the beginning, if the
// last of those that left said zero, and after Nudge.
func (t *Table) Hint(w *Waiter) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return w.hint
}

// Give gives what holds these keys, none of them twice, to the waiter that is first and waits for
// exactly these, in whatever order, and wakes it. False: there is none, or it has a gift that it
// has not taken; the giver keeps the gift. The gift is not nil.
func (t *Table) Give(keys []string, gift any) bool {
	w := t.give(keys, gift)
	if w == nil {
		return false
	}
	w.Wake()
	return true
}

// give is Give but for the waking: it returns who is to be woken.
func (t *Table) give(keys []string, gift any) *Waiter {
	if t.waiting.Load() == 0 || len(keys) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	head := t.rooms[keys[0]]
	if head == nil {
		return nil
	}
	w := head.waiter
	// Whoever is at the head of as many queues as it has keys is first, and the sets are the same.
	if w.gift != nil || len(keys) != len(w.places) {
		return nil
	}
	for _, key := range keys[1:] {
		if p := t.rooms[key]; p == nil || p.waiter != w {
			return nil
		}
	}
	w.gift = gift
	return w
}

// Take returns what w was given, once, and else nil. Who takes it holds the keys, and leaves.
func (t *Table) Take(w *Waiter) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	gift := w.gift
	w.gift = nil
	return gift
}

// Nudge tells that these keys may be free at until, or with the zero time now: that is the hint of
// those that are first for any of them from then on, and they are woken. Who is at the head of one
// of these queues only is not woken, but its hint is changed as well: what it was told of this key
// is void.
func (t *Table) Nudge(keys []string, until time.Time) {
	var few [4]*Waiter // keeps the usual case off the heap
	for _, w := range t.nudge(keys, until, few[:0]) {
		w.Wake()
	}
}

// nudge is Nudge but for the waking: it appends to woken who is to be woken.
func (t *Table) nudge(keys []string, until time.Time, woken []*Waiter) []*Waiter {
	if t.waiting.Load() == 0 {
		return woken // most releases: whoever enters from now on tries by itself
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		head := t.rooms[key]
		if head == nil {
			continue
		}
		w := head.waiter
		w.hint = until
		// A waiter for several of these keys is mostly met at keys next to each other. Waking it
		// twice does no harm, a search does.
		if last := len(woken) - 1; w.first() && (last < 0 || woken[last] != w) {
			woken = append(woken, w)
		}
	}
	return woken
}

// Waiting returns how many wait.
func (t *Table) Waiting() int { return int(t.waiting.Load()) }

// Waits reports whether somebody waits for key.
func (t *Table) Waits(key string) bool {
	if t.waiting.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rooms[key] != nil
}

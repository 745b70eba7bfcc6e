// Package waitroom keeps the calls of this process that wait for keys in order, so that only one at
// a time contends for a key with other processes. It knows neither Redis nor clocks.
package waitroom

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Queue is a queue for each key that has waiters. A waiter is in the queues of all its keys. It is
// first when it is at the head of each of them. A holder in this process may also offer what it
// holds to the first waiter.
//
// Invariants:
//
//  1. At most one waiter is first for a key.
//  2. Every queue is in the order of Enter. So the waiter that entered before all others is first,
//     and there is no deadlock, however the sets of keys overlap: if the first waiters leave again,
//     every waiter becomes first.
//  3. A waiter that becomes first after its Enter is woken by the Leave that made it first, whether
//     the one that left had its keys or gave up.
//  4. An offer is returned exactly once: by Accept, or by the Leave of the waiter that it was made
//     to.
//  5. The HeldUntil of a waiter is never older than the last NotifyFree for a key at whose head it
//     is: no waiter sleeps through a release.
//  6. A key without waiters takes no memory, and after very many keys the map shrinks.
//
// Outline: Enter appends an entry to the queue of each key, and counts in blocked how many of them
// have an entry before it. Leave unlinks the entries. A waiter that comes to a head by that is
// blocked once less, and at zero it is first. Entries are linked through the waiter itself, and the
// map knows only the head of each queue: the time to enter and to leave does not grow with the
// queue.
//
// Rejected: a queue for each set of keys (sets that overlap would contend with each other on the
// nodes, and {1,2} could starve behind {1} and {2}), entering the queues one by one in the order of
// the keys (a waiter would block others at its first key while it waits at its last, and the one
// that came first would not be first), a lock for each key (the work under the lock is a few
// pointers), and a slice or a channel for each queue (memory for each key, and a search when a
// waiter in the middle gives up).
//
// The zero value is ready. It must not be copied. All methods are safe for concurrent use.
type Queue struct {
	// The number of waiters; changed under mu, before the call that changes it returns.
	waiting atomic.Int64

	mu    sync.Mutex        // guards all below and in the waiters; Wake is not called under it
	heads map[string]*entry // of the queue of each key; nil until the first Enter
	peak  int               // the most keys since heads was made
}

// Waiter waits for its keys. Its owner embeds it, so that waiting for a single key costs no
// allocation. The zero value with Wake set is ready for Enter. After Leave it may enter again. It
// must not be copied while it waits.
type Waiter struct {
	// Wake is called when something has changed: the waiter became first, it has an offer, or its
	// keys may be free. It is set once, before Enter. It is called without locks held, on the
	// goroutine that caused the change, and must not block. A call may be spurious, come from
	// several goroutines at once, and come even after Leave.
	Wake func()

	// Guarded by the queue's mu:
	entries   []entry   // in the queue of each key; nil while it does not wait
	one       [1]entry  // memory of entries if there is a single key
	blocked   int       // how many of the entries have another before them
	heldUntil time.Time // see Queue.HeldUntil
	offer     any       // made and not accepted; nil: none
}

// entry is a waiter's entry in the queue of one key. The queue is a ring: before its head is its
// end.
type entry struct {
	waiter     *Waiter
	key        string
	prev, next *entry
}

const (
	// minPeak is how many keys make the map worth shrinking: a Go map keeps its memory when entries
	// are deleted.
	minPeak = 1024
	// shrinkRatio says when the map shrinks: when its keys are this part of the peak. The remaining
	// keys are moved, so they must be few compared with the deleted ones.
	shrinkRatio = 64
)

// Enter puts w at the end of the queue of every key in one step. If limit waiters or more wait
// already, it does nothing and returns false. There is at least one key, and none twice. Enter does
// not keep the slice. w must not wait already. After Enter, First says whether w is first at once.
// If w becomes first later, it is woken.
func (q *Queue) Enter(w *Waiter, keys []string, limit int) (ok bool) {
	places := w.one[:]
	if len(keys) != 1 {
		places = make([]entry, len(keys))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.waiting.Load()) >= limit {
		return false
	}
	q.waiting.Add(1)
	if q.heads == nil {
		q.heads = make(map[string]*entry)
	}
	w.entries = places
	for i, key := range keys {
		w.entries[i] = entry{waiter: w, key: key}
		if q.join(&w.entries[i]) {
			w.blocked++
		}
	}
	q.peak = max(q.peak, len(q.heads))
	return true
}

// join puts e at the end of its queue, and reports whether another entry is before it. mu is held.
func (q *Queue) join(e *entry) (blocked bool) {
	head := q.heads[e.key]
	if head == nil {
		e.prev, e.next = e, e
		q.heads[e.key] = e
		return false
	}
	e.prev, e.next = head.prev, head
	e.prev.next, head.prev = e, e
	return true
}

// remove takes e out of its queue, and returns the waiter that comes to the head by that, or nil if
// none does. mu is held.
func (q *Queue) remove(e *entry) (successor *Waiter) {
	e.prev.next, e.next.prev = e.next, e.prev
	switch {
	case q.heads[e.key] != e:
		return nil // the head stays the same
	case e.next == e:
		delete(q.heads, e.key)
		return nil
	}
	q.heads[e.key] = e.next
	return e.next.waiter
}

// First reports whether w waits and is at the head of the queue of each of its keys.
func (q *Queue) First(w *Waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.first()
}

// first is First. mu is held.
func (w *Waiter) first() bool { return w.entries != nil && w.blocked == 0 }

// Leave takes w out of all queues, and wakes the waiters that become first by that. If w does not
// wait, it does nothing.
//
// until is for the waiters behind w: see HeldUntil. A caller that leaves because it holds the keys
// gives the time until when it holds them at most. It must leave before the keys can be released:
// the NotifyFree of the release must find the waiters that got until. A caller that gives up gives
// zero, and not its own HeldUntil, since a NotifyFree may have come in between.
//
// Leave returns an offer that was made to w and that w has not accepted. Then the caller holds
// these keys. It offers them to the waiter that is first now. If there is none, it releases the
// keys and calls NotifyFree. In this case the waiters behind w do not get until: they would sleep
// although the keys are about to be released. They may try unsuccessfully instead, until Offer or
// NotifyFree wakes them again.
func (q *Queue) Leave(w *Waiter, until time.Time) (offer any) {
	var few [4]*Waiter // keeps the usual case off the heap
	offer, successors := q.leave(w, until, few[:0])
	for _, successor := range successors {
		successor.Wake()
	}
	return offer
}

// leave is Leave without the waking: it appends to successors the waiters to wake.
func (q *Queue) leave(w *Waiter, until time.Time, successors []*Waiter) (any, []*Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.entries == nil {
		return nil, successors
	}
	offer := w.offer
	if offer != nil {
		until = time.Time{}
	}
	for i := range w.entries {
		successor := q.remove(&w.entries[i])
		if successor == nil {
			continue
		}
		successor.setHeldUntil(until)
		if successor.blocked--; successor.blocked == 0 {
			successors = append(successors, successor)
		}
	}
	// w must keep no other waiter alive.
	w.entries, w.one, w.blocked, w.heldUntil, w.offer = nil, [1]entry{}, 0, time.Time{}, nil
	q.waiting.Add(-1)
	q.shrink()
	return offer, successors
}

// setHeldUntil takes the until of a Leave that brought w to the head of a queue. Of several the
// latest counts, since w needs all of its keys. But zero counts always: then w must try. mu is
// held.
func (w *Waiter) setHeldUntil(until time.Time) {
	if until.IsZero() || until.After(w.heldUntil) {
		w.heldUntil = until
	}
}

// shrink gives back the memory of a map that was large and has few keys left. mu is held.
func (q *Queue) shrink() {
	if q.peak < minPeak || len(q.heads) > q.peak/shrinkRatio {
		return
	}
	rooms := make(map[string]*entry, len(q.heads))
	maps.Copy(rooms, q.heads)
	q.heads, q.peak = rooms, len(rooms)
}

// HasSuccessor reports whether another waiter is behind w in the queue of its first key.
func (q *Queue) HasSuccessor(w *Waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.entries == nil {
		return false
	}
	e := &w.entries[0]
	return e.next != q.heads[e.key]
}

// HeldUntil returns until when this process holds the keys of w at most, if w is first. The Leave
// that made it first said so. If several left before w, the latest until counts. Zero means that
// nothing is known, so that w should try. It is zero too if w was first from the beginning, if the
// last Leave said zero, and after NotifyFree.
func (q *Queue) HeldUntil(w *Waiter) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.heldUntil
}

// Offer offers what holds these keys, none of them twice, to the waiter that is first and waits for
// exactly these, in any order, and wakes it. It returns false if there is none, or if that waiter
// has an offer that it has not accepted. Then the caller keeps what it offered. offer is not nil.
func (q *Queue) Offer(keys []string, offer any) bool {
	w := q.offer(keys, offer)
	if w == nil {
		return false
	}
	w.Wake()
	return true
}

// offer is Offer without the waking: it returns the waiter to wake.
func (q *Queue) offer(keys []string, offer any) *Waiter {
	if q.waiting.Load() == 0 || len(keys) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	head := q.heads[keys[0]]
	if head == nil {
		return nil
	}
	w := head.waiter
	// A waiter at the head of as many queues as it has keys is first, and the sets are the same.
	if w.offer != nil || len(keys) != len(w.entries) {
		return nil
	}
	for _, key := range keys[1:] {
		if head := q.heads[key]; head == nil || head.waiter != w {
			return nil
		}
	}
	w.offer = offer
	return w
}

// Accept returns the offer that was made to w, once, or nil. The caller holds the keys then, and
// leaves.
func (q *Queue) Accept(w *Waiter) any {
	q.mu.Lock()
	defer q.mu.Unlock()
	offer := w.offer
	w.offer = nil
	return offer
}

// NotifyFree says that these keys may be free at until; the zero time means now. until becomes the
// HeldUntil of the waiters at the head of these queues. Those that are first are woken. The others
// are not woken, but their HeldUntil changes too, because the one that they had is not true any
// more.
func (q *Queue) NotifyFree(keys []string, until time.Time) {
	var few [4]*Waiter // keeps the usual case off the heap
	for _, w := range q.notifyFree(keys, until, few[:0]) {
		w.Wake()
	}
}

// notifyFree is NotifyFree without the waking: it appends to woken the waiters to wake.
func (q *Queue) notifyFree(keys []string, until time.Time, woken []*Waiter) []*Waiter {
	if q.waiting.Load() == 0 {
		return woken // most releases: a waiter that enters from now on tries without a notification
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		head := q.heads[key]
		if head == nil {
			continue
		}
		w := head.waiter
		w.heldUntil = until
		// A waiter for several of these keys is mostly found at keys next to each other. To wake it
		// twice does no harm; a search would cost time.
		if last := len(woken) - 1; w.first() && (last < 0 || woken[last] != w) {
			woken = append(woken, w)
		}
	}
	return woken
}

// Waiting returns the number of waiters.
func (q *Queue) Waiting() int { return int(q.waiting.Load()) }

// HasWaiters reports whether there is a waiter for key.
func (q *Queue) HasWaiters(key string) bool {
	if q.waiting.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.heads[key] != nil
}

package combine

import (
	"cmp"
	"context"
	"slices"
)

// call is a call of Do in a queue. The queue owns it until the call has left or its batch has
// ended.
type call struct {
	keys   []string // each once
	owner  any      // what the Combiner knows of it
	seq    uint64   // in the order of arrival
	passed int      // how often a younger call took a key of this one first
	alone  bool     // nobody joins it, and it joins nobody
	batch  *batch   // nil while the call waits for a batch
	listed *batch   // the batch that last thought of it
}

// batch is calls that run together.
type batch struct {
	calls  []*call
	keys   []string // of all calls, each once
	claims []string // the keys that no other batch may have meanwhile
	parked bool     // it waits for keys that another process holds, and claims only these
	begun  bool     // its calls are final

	ctx    context.Context // of the wait for the lease; the Combiner's
	cancel context.CancelFunc
}

// queue decides which calls run together, and in which order. It is pure: no time, no goroutine, no
// lock. Its methods return the batches that start.
//
// A call waits while a batch claims one of its keys. It also waits while an older call with one of
// its keys waits and was passed maxPassed times. Otherwise it starts a batch. In the order of
// arrival, each waiting call that shares a key with the batch so far joins it, if it need not wait
// for something else, and if the batch has room.
type queue struct {
	maxItems, maxKeys, maxPassed int

	seq     uint64
	pending int // calls that have neither left nor ended
	claims  map[string]int
	// waiting has the calls that wait for a batch, and those of parked batches, by each of their
	// keys and in the order of arrival.
	waiting map[string][]*call
}

func newQueue(maxItems, maxKeys, maxPassed int) *queue {
	return &queue{
		maxItems: maxItems, maxKeys: maxKeys, maxPassed: maxPassed,
		claims: make(map[string]int), waiting: make(map[string][]*call),
	}
}

// add adds a call, which starts at once if it need not wait.
func (q *queue) add(c *call) []*batch {
	q.seq++
	q.pending++
	c.seq = q.seq
	q.list(c)
	if !q.mayStart(c) {
		return nil
	}
	return []*batch{q.form(c)}
}

// mayStart reports whether nothing that c has to wait for stands in its way.
func (q *queue) mayStart(c *call) bool {
	for _, k := range c.keys {
		if q.claims[k] > 0 {
			return false
		}
		for _, w := range q.waiting[k] {
			if w.seq >= c.seq {
				break
			}
			if w.passed >= q.maxPassed && w.isPassable() {
				return false
			}
		}
	}
	return true
}

// isPassable reports whether a younger call that starts now passes c.
func (c *call) isPassable() bool { return c.batch == nil || c.batch.parked && !c.batch.begun }

// form starts a batch with the oldest call of it.
func (q *queue) form(oldest *call) *batch {
	b := &batch{}
	in := make(map[string]bool)
	candidates := q.join(b, in, oldest, nil)
	for len(candidates) > 0 && len(b.calls) < q.maxItems && !oldest.alone {
		c := candidates[0]
		candidates = candidates[1:]
		added := 0
		for _, k := range c.keys {
			if !in[k] {
				added++
			}
		}
		if !c.alone && len(b.keys)+added <= q.maxKeys && q.mayStart(c) {
			candidates = q.join(b, in, c, candidates)
		}
	}
	q.unlist(b.keys, b.calls...)
	q.claim(b, b.keys)
	return b
}

// join adds c to b, whose keys are in. It returns the candidates, and with them the younger waiting
// calls that share a new key, in the order of arrival.
func (q *queue) join(b *batch, in map[string]bool, c *call, candidates []*call) []*call {
	c.batch = b
	b.calls = append(b.calls, c)
	known := len(candidates)
	for _, k := range c.keys {
		older := 0
		for _, w := range q.waiting[k] {
			if w.seq >= c.seq {
				break
			}
			if older++; w.isPassable() {
				w.passed++
			}
		}
		if in[k] {
			continue
		}
		in[k] = true
		b.keys = append(b.keys, k)
		for _, w := range q.waiting[k][older:] {
			if w.batch == nil && w.listed != b {
				w.listed = b
				candidates = append(candidates, w)
			}
		}
	}
	if len(candidates) > known {
		slices.SortFunc(candidates, byArrival)
	}
	return candidates
}

func byArrival(a, b *call) int { return cmp.Compare(a.seq, b.seq) }

// begin makes the calls of b final, and claims all of its keys. It reports whether a call is left.
func (q *queue) begin(b *batch) bool {
	b.begun = true
	if b.parked {
		q.unlist(b.keys, b.calls...)
		q.claim(b, b.keys)
	}
	return len(b.calls) > 0
}

// leave takes a call out of the queue, or out of a batch that has not begun. It reports whether it
// could, and whether the batch has lost its last call.
func (q *queue) leave(c *call) (left, isEmpty bool, started []*batch) {
	b := c.batch
	switch {
	case b == nil:
	case b.begun:
		return false, false, nil
	default:
		b.calls = slices.DeleteFunc(b.calls, func(o *call) bool { return o == c })
		isEmpty = len(b.calls) == 0
	}
	q.pending--
	q.unlist(c.keys, c)
	return true, isEmpty, q.start(c.keys) // calls that c held up
}

// refuse is called if another process has the held keys. The calls of b that want one of them stay
// in b, which is parked. The others wait again, or start. Nothing happens if no call wants one.
func (q *queue) refuse(b *batch, held []string) []*batch {
	var stay, free []*call
	for _, c := range b.calls {
		if slices.ContainsFunc(c.keys, func(k string) bool { return slices.Contains(held, k) }) {
			stay = append(stay, c)
		} else {
			free = append(free, c)
		}
	}
	if len(stay) == 0 {
		return nil
	}
	before, seen := b.keys, make(map[string]bool)
	b.calls, b.keys, b.parked = stay, nil, true
	var claims []string
	for _, c := range stay {
		for _, k := range c.keys {
			if !seen[k] {
				seen[k] = true
				b.keys = append(b.keys, k)
				if slices.Contains(held, k) {
					claims = append(claims, k)
				}
			}
		}
		q.list(c)
	}
	q.claim(b, claims)
	q.requeue(free)
	return q.start(before)
}

// requeue lets calls wait in their old places.
func (q *queue) requeue(calls []*call) {
	for _, c := range calls {
		c.batch = nil
		q.list(c)
	}
}

// end ends b. If retry is set, each of its calls waits again, for a batch of its own.
func (q *queue) end(b *batch, retry bool) []*batch {
	if b.parked && !b.begun {
		q.unlist(b.keys, b.calls...)
	}
	q.claim(b, nil)
	if retry {
		for _, c := range b.calls {
			c.alone = true
		}
		q.requeue(b.calls)
	} else {
		q.pending -= len(b.calls)
	}
	return q.start(b.keys)
}

// takeWaiting takes all calls that wait for a batch out of the queue.
func (q *queue) takeWaiting() (taken []*call) {
	seen := make(map[*call]bool)
	var keys []string
	for k, calls := range q.waiting {
		keys = append(keys, k)
		for _, c := range calls {
			if c.batch == nil && !seen[c] {
				seen[c] = true
				taken = append(taken, c)
			}
		}
	}
	q.unlist(keys, taken...)
	q.pending -= len(taken)
	return taken
}

// start starts batches of the calls that waited for one of keys, if they need not wait any more.
func (q *queue) start(keys []string) (started []*batch) {
	var all []*call
	for _, k := range keys {
		all = append(all, q.waiting[k]...)
	}
	slices.SortFunc(all, byArrival)
	for _, c := range slices.Compact(all) {
		if c.batch == nil && q.mayStart(c) {
			started = append(started, q.form(c))
		}
	}
	return started
}

// claim replaces what b claims.
func (q *queue) claim(b *batch, keys []string) {
	for _, k := range keys {
		q.claims[k]++
	}
	for _, k := range b.claims {
		if q.claims[k]--; q.claims[k] == 0 {
			delete(q.claims, k)
		}
	}
	b.claims = keys
}

// list lists a call under each of its keys.
func (q *queue) list(c *call) {
	for _, k := range c.keys {
		at, _ := slices.BinarySearchFunc(q.waiting[k], c, byArrival)
		q.waiting[k] = slices.Insert(q.waiting[k], at, c)
	}
}

// unlist takes calls out of the lists of keys, which are all of theirs.
func (q *queue) unlist(keys []string, calls ...*call) {
	gone := make(map[*call]bool, len(calls))
	for _, c := range calls {
		gone[c] = true
	}
	for _, k := range keys {
		left := slices.DeleteFunc(q.waiting[k], func(c *call) bool { return gone[c] })
		if len(left) == 0 {
			delete(q.waiting, k)
		} else {
			q.waiting[k] = left
		}
	}
}

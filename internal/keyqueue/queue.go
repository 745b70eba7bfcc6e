// Package keyqueue decides which call of this process is next for its keys. It knows neither Redis
// nor clocks.
//
// A call wants a set of keys and waits in the queue of each of them. It runs when it may have all
// of them: it asks the nodes, and then it holds them. A key is free in this process if no call runs
// with it, and if no call contends for it with another process.
//
// # Rules
//
//  1. On each change all calls that can run do so, in the order of arrival. A call can run if all
//     of its keys are free, and none is reserved by a call that arrived earlier.
//  2. So calls overtake those that arrived earlier and can't run. A crowd that waits for one hot
//     key does not keep others from the cold keys that its members want as well.
//  3. A call that only holders stop reserves those of its keys that are free. Only holders stop it
//     if at each of its keys it is the first waiting call, or overdue: maxOvertaken calls that
//     arrived later were granted the key before it. So those that are far back in the queue of a
//     hot key reserve no cold keys.
//  4. While another process has one of its keys, as far as known, a call reserves by rule 5 alone:
//     nobody uses what it reserves until that process is ready.
//  5. A call that is overdue at one of its keys, or has contended so often, reserves those of its
//     free keys whose names are smaller than those of all keys that stop it. It does so while it
//     contends too, but not again for a holder that has stopped it before. Such a call waits for
//     larger keys than it keeps. So such calls never wait in a circle, in whatever processes.
//  6. A call reserves when it arrives or contends, or when the key that it waited for last becomes
//     free. But the end of a reservation lets calls run, and none reserve. The caller bounds the
//     time of a reservation: see Reserving.
//
// # Why no call starves
//
// Of the calls that wait, take the one that arrived first. No reservation binds it, and it may
// reserve. Each time that a key for which it waits becomes free, it takes or reserves that key. It
// needs the others only one at a time, so it has all after one turn of each, unless a reservation
// ends before. Callers give a call that lost its reservation more time with each one. So the call
// runs, and the next one is first. A call that is not first waits no longer than that once it is
// overdue, and it is overdue if it is overtaken again and again. The same is true of a call that
// contended.
//
// Among processes a call collects its keys by rule 5, and its process keeps its place in the line
// for a reserved key. A reservation that ends too early is repeated, and lasts longer, up to 1 s.
//
// # Why there is no deadlock
//
// A waiting call holds no key, and a reservation binds only calls that arrived later. So of the
// calls that reserve keys, no other stops the first one. A holder that asks for another key may be
// stopped by the reservation of a call that waits for this holder, also of another process. That
// ends with the time of the reservation, and no other reservation follows it at once.
//
// # Cost
//
// A waiting call is parked at one key that it can't have. A change looks only at calls that are
// parked at a key that became free, in the order of arrival, until one of them takes or reserves
// the key. A look takes time in the number of the call's keys. A call that can't have another of
// its keys moves to that one.
package keyqueue

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Queue knows the calls of one process that wait for keys or have them. The zero value is ready. It
// must not be copied. All methods are safe for concurrent use.
type Queue struct {
	// The number of calls that wait or run, and the number of keys; changed under mu.
	waiting atomic.Int64
	known   atomic.Int64

	mu       sync.Mutex // guards all below and in the calls; no Caller is called under it
	keys     map[string]*key
	arrivals uint64 // how many calls arrived so far
}

// Enter adds c, which wants these keys, and reports whether it runs at once. If not, c waits, and
// its Caller is notified when it runs. If limit calls or more wait or run, Enter does nothing and
// ok is false. There is at least one key, and none twice. Enter does not keep the slice. c must be
// outside.
func (q *Queue) Enter(c *Call, keys []string, limit int) (runs, ok bool) {
	q.change(func(s *changes) {
		if ok = int(q.waiting.Load()) < limit; !ok {
			return
		}
		q.waiting.Add(1)
		q.arrivals++
		c.arrival, c.state, c.keys = q.arrivals, waiting, c.one[:0]
		if len(keys) > 1 {
			c.keys = make([]*key, 0, len(keys))
		}
		for _, name := range keys {
			c.keys = append(c.keys, q.join(c, name))
		}
		s.quiet = c
		q.consider(c, s)
		runs = c.state == running
	})
	return runs, ok
}

// Hold says that the nodes granted c its keys, until then at most. c runs, and does not wait any
// more. It keeps the keys until Leave or Successor. Called again, Hold changes until.
func (q *Queue) Hold(c *Call, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.state != running {
		return
	}
	c.until = until
	if c.granted {
		return
	}
	q.endWait(c)
	for _, k := range c.keys {
		k.foreign, k.passing.yields = false, false
		k.noteOvertaking(c)
	}
}

// endWait takes c out of the queues of its keys. mu is held.
func (q *Queue) endWait(c *Call) {
	if c.state == outside || c.granted {
		return
	}
	c.granted = true
	q.waiting.Add(-1)
	for _, k := range c.keys {
		k.queue.remove(c)
	}
}

// Contend says that another process holds the key with this name, and that c, which runs and holds
// nothing, contends for it. c waits again, in its place, and calls Retry when it wants to try
// again. Until then no other call of this process may have this key. The other keys of c are free,
// but for those that it reserves. again: who has the key has stopped c before: c reserves nothing.
func (q *Queue) Contend(c *Call, name string, again bool) {
	q.change(func(s *changes) {
		c.state, c.refused = contending, min(c.refused+1, maxOvertaken)
		for _, k := range c.keys {
			k.owner, k.passing = nil, passing{}
			if k.name == name {
				k.contender, k.foreign = c, true
			}
		}
		if !again {
			q.reserve(c, s)
		}
		q.settle(c.keys, s)
	})
}

// Retry ends the contention of c, and reports whether c runs now. If not, other calls have some of
// its keys: c waits for them, and its Caller is notified when it runs. Others may contend for its
// key meanwhile. If c does not contend, Retry does nothing and returns false: so it may come late.
func (q *Queue) Retry(c *Call) (runs bool) {
	q.change(func(s *changes) {
		if c.state != contending {
			return
		}
		s.quiet, c.state = c, waiting
		for _, k := range c.keys {
			if k.contender == c {
				k.contender = nil
				q.park(c, k) // until settle considers it, in the order of arrival
			}
		}
		q.settle(c.keys, s)
		runs = c.state == running
	})
	return runs
}

// GiveUp takes c out if it waits or contends. It returns false if c is outside or runs. If it runs,
// its Caller is notified or was, or the one who called Retry or Successor knows. Then the attempt
// ends with Hold, Leave or Contend: after Contend, GiveUp may be called again.
func (q *Queue) GiveUp(c *Call) (out bool) {
	q.change(func(s *changes) {
		if out = c.state == waiting || c.state == contending; out {
			q.remove(c, s)
		}
	})
	return out
}

// Leave takes c out, whatever it does: it holds its keys no longer, or gives up. Its keys become
// free at now. If c is outside, Leave does nothing.
func (q *Queue) Leave(c *Call, now time.Time) {
	q.change(func(s *changes) { q.leave(c, now, s) })
}

// leave is Leave. mu is held.
func (q *Queue) leave(c *Call, now time.Time, s *changes) {
	for _, k := range c.keys {
		if c.granted && k.passing.since.IsZero() {
			k.passing = passing{since: now, arrivals: q.arrivals}
		}
	}
	if c.state != outside {
		q.remove(c, s)
	}
}

// Successor is Leave, if the call that is next for the keys of c wants the same ones in the same
// order. It returns that call, which runs now and is not notified: Begin must follow. Without such
// a call Successor returns nil and changes nothing.
func (q *Queue) Successor(c *Call, now time.Time) (next *Call) {
	q.change(func(s *changes) {
		for _, k := range c.keys {
			if p := k.parked.first(); p != nil && (next == nil || p.arrival < next.arrival) {
				next = p
			}
		}
		if next == nil || !slices.Equal(next.keys, c.keys) {
			next = nil
			return
		}
		s.quiet = next
		q.leave(c, now, s)
	})
	return next
}

// remove takes c out, and lets others run. mu is held.
func (q *Queue) remove(c *Call, s *changes) {
	q.unpark(c)
	for _, k := range c.keys {
		if k.owner == c {
			k.owner = nil
		}
		if k.contender == c {
			k.contender = nil
		}
		if k.reserver == c {
			k.reserver = nil
		}
	}
	q.endWait(c)
	q.settle(c.keys, s)
	q.forget(c)
}

// Reserved returns the keys that c reserves.
func (q *Queue) Reserved(c *Call) (keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range c.keys {
		if k.reserver == c {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// Unreserve ends the reservations of c, and returns their keys. No other call reserves these then.
func (q *Queue) Unreserve(c *Call) (keys []string) {
	q.change(func(s *changes) {
		for _, k := range c.keys {
			if k.reserver == c {
				k.reserver, keys = nil, append(keys, k.name)
			}
		}
		s.noReserving = true
		q.settle(c.keys, s)
	})
	return keys
}

// HeldUntil returns until when calls of this process hold keys of c at most. It is zero if no call
// does, or if other calls wait before c.
func (q *Queue) HeldUntil(c *Call) (until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range c.keys {
		if k.firstWaiting() != c {
			return time.Time{}
		}
		if o := k.owner; o != nil && o != c && o.until.After(until) {
			until = o.until
		}
	}
	return until
}

// Released says that this process no longer holds these keys, which no call of the queue had. The
// callers that contend for them are notified.
func (q *Queue) Released(keys []string) {
	if q.known.Load() == 0 {
		return
	}
	q.change(func(s *changes) {
		for _, name := range keys {
			if k := q.keys[name]; k != nil && k.contender != nil {
				s.notices = append(s.notices, notice{k.contender.Caller, Released})
			}
		}
	})
}

// Contender returns the call that contends for one of these keys, if it wants the same ones in the
// same order. It is nil if there is none. The call may change at any moment.
func (q *Queue) Contender(keys []string) (c *Call) {
	q.any(keys, func(k *key) bool {
		if k.contender != nil && slices.EqualFunc(k.contender.keys, keys,
			func(k *key, name string) bool { return k.name == name }) {
			c = k.contender
		}
		return k.contender != nil
	})
	return c
}

// Waiting returns the number of calls that wait or run. Those that hold their keys do not count.
func (q *Queue) Waiting() int { return int(q.waiting.Load()) }

// Knows reports whether a call waits for one of these keys, or has one.
func (q *Queue) Knows(keys []string) bool {
	return q.any(keys, func(*key) bool { return true })
}

// HasWaiters reports whether a call waits for this key, other than the one that runs with it.
func (q *Queue) HasWaiters(name string) bool {
	return q.any([]string{name}, func(k *key) bool { return k.firstWaiting() != nil })
}

// Uses reports whether a call has this key, contends for it, or reserves it.
func (q *Queue) Uses(name string) bool {
	return q.any([]string{name}, func(k *key) bool {
		return k.owner != nil || k.contender != nil || k.reserver != nil
	})
}

// any reports whether is says so of one of these keys that a call waits for or has. is runs under
// mu.
func (q *Queue) any(keys []string, is func(*key) bool) bool {
	if q.known.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(keys, func(name string) bool {
		k := q.keys[name]
		return k != nil && is(k)
	})
}

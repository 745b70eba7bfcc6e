package lease

import (
	"math/rand/v2"
	"time"
)

// When a term is due for its automatic extension. V is the validity of its TTL, R what is left of
// the current validity.
//
// It is due at a random moment when between 3/4 and 1/2 of V is left: random, so that terms that
// began together do not stay together. What fails is tried again after between V/64 and V/32, and
// towards the end after between R/4 and R/2. A try ends after NodeTimeout, or V/16 if that is
// longer: a further one reaches no node that has not answered the one before. So at least (V/2) /
// (max(NodeTimeout, V/16) + V/32) tries fit before the deadline: 5 if all of them hang, with a TTL
// of 10 s and a NodeTimeout of up to 600 ms, and 16 or more if they fail at once. None waits beyond
// half of R, so that there is always a further one.
const (
	dueParts      = 4 // V in these parts
	dueEarly      = 3 // of them are left at the earliest moment
	dueLate       = 2 // of them are left at the latest moment
	patienceParts = 16
	pauseParts    = 32
	// shortest is the shortest pause.
	shortest = time.Millisecond
	// tick is what the moments are rounded down to, so that the timer does not fire for each; for a
	// short V a part of it.
	tick = time.Millisecond
	// linger is how long a term that is due waits for others, so that they share a batch; for a
	// short V a part of it. The moment is earlier by as much.
	linger = 10 * time.Millisecond
)

// part is d, or for a short validity so much of it that pauses hardly change.
func part(d, v time.Duration) time.Duration { return max(min(d, v/pauseParts), 1) }

// pause is the time before the next try, where so much is left.
func pause(v, left time.Duration) time.Duration {
	least := max(min(v/pauseParts, left/2)/2, shortest)
	return least + rand.N(least)
}

// extendable reports whether an automatic extension is wanted at some time. mu is held.
func (t *Term) extendable() bool {
	return t.ttl != 0 && t.until < t.bound && !t.queued &&
		!t.extending
}

// wake is when the manager is to look at the term next.
func (t *Term) wake() instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next(t.manager.now())
}

// next is wake. mu is held.
func (t *Term) next(now instant) instant {
	if !t.extendable() {
		return t.until
	}
	v := Validity(t.ttl)
	early := t.until.after(-v * dueEarly / dueParts)
	at := early.after(rand.N(v*(dueEarly-dueLate)/dueParts + 1))
	if at <= now || t.failed() {
		at = max(early, now.after(pause(v, time.Duration(t.until-now))))
	} else {
		at = at.after(-part(linger, v))
		at -= at % instant(part(tick, v))
	}
	return min(at, t.until)
}

// failed reports whether the last extension failed. mu is held.
func (t *Term) failed() bool { return t.extra != nil && t.extra.failure != nil }

// look is what the manager asks when the time of a term's event has come: whether it is over, or
// due for an extension, when that has to begin at the latest (0: it is not due), and when to look
// again. What failed before, or is late, does not linger.
func (t *Term) look(now instant) (next, latest instant, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end != nil || now >= t.until {
		return 0, 0, true
	}
	v, left := Validity(t.ttl), time.Duration(t.until-now)
	if t.extendable() && left <= v*dueEarly/dueParts+part(linger, v)+part(tick, v) {
		t.queued, latest = true, now
		if left > v*dueLate/dueParts && !t.failed() {
			latest = now.after(part(linger, v))
		}
	}
	return t.next(now), latest, false
}

// unqueue is told that the term is not among the ready ones any more.
func (t *Term) unqueue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queued = false
}

// deadline is until, for the manager.
func (t *Term) deadline() instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

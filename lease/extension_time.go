package lease

import (
	"math/rand/v2"
	"time"
)

// These constants say when a term is due for its automatic extension. V is the validity of its TTL,
// R what is left of the current validity.
//
// It is due at a random moment when between 2/3 and 1/3 of V is left: random, so that terms that
// began together do not stay together. The narrower that is, the longer they come in waves. If V is
// below 150 ms, up to 50 ms are left at the latest moment; if it is below 100 ms, between 3/4 and
// 1/2. A failed extension is retried after between V/96 and V/48, and towards the end after between
// R/4 and R/2. A try ends after NodeTimeout, or V/24 if that is longer: a further one reaches no
// node that has not answered the one before. So about (V/3) / (max(NodeTimeout, V/24) + V/48) tries
// fit before the deadline: 5 if all of them hang, with a TTL of 10 s and a NodeTimeout of up to
// 600 ms, and 16 or more if they fail at once. No try waits beyond half of R, so that there is
// always a further one.
const (
	dueParts = 3 // V in these parts
	dueEarly = 2 // of them are left at the earliest moment
	dueLate  = 1 // of them are left at the latest moment, or
	minLeft  = 50 * time.Millisecond
	// How long a try may take, and how long the delay before a retry is, as parts of V.
	timeoutParts = 24
	delayParts   = 48
	// minRetryDelay is the shortest delay before a retry.
	minRetryDelay = time.Millisecond
	// The moments are rounded down to a multiple of tick, so that the timer does not fire for each.
	// For a short V it is a part of tick.
	tick = time.Millisecond
	// linger is how long a term that is due waits for others, so that they share a batch; for a
	// short V a part of it. The moment is earlier by as much.
	linger = 10 * time.Millisecond
)

// dueWith returns how much of a validity is left when a term is due, at the earliest and at the
// latest moment.
func dueWith(v time.Duration) (early, late time.Duration) {
	late = max(v*dueLate/dueParts, min(v/2, minLeft))
	return max(v*dueEarly/dueParts, late+v/4), late
}

// capped returns d, or for a short validity so little that the delays hardly change.
func capped(d, v time.Duration) time.Duration { return max(min(d, v/delayParts), 1) }

// retryDelay returns the time before the next try, if left is what is left of the validity.
func retryDelay(v, left time.Duration) time.Duration {
	least := max(min(v/delayParts, left/2)/2, minRetryDelay)
	return least + rand.N(least)
}

// wantsExtension reports whether the term will be due for an automatic extension. mu is held.
func (t *Term) wantsExtension() bool {
	return t.ttl != 0 && t.until < t.maxHoldEnd && !t.queued && !t.extending
}

// nextEvent returns when the manager must check the term next.
func (t *Term) nextEvent() Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.computeNext(t.manager.clock.Now())
}

// computeNext is nextEvent. mu is held.
func (t *Term) computeNext(now Instant) Instant {
	if !t.wantsExtension() {
		return t.until
	}
	v := Validity(t.ttl)
	most, least := dueWith(v)
	early := t.until.after(-most)
	at := early.after(rand.N(most - least + 1))
	switch retry := now.after(retryDelay(v, time.Duration(t.until-now))); {
	case !t.wasExtended():
		at = retry
	case at <= now || t.failed():
		at = max(early, retry)
	default:
		at = at.after(-capped(linger, v))
		at -= at % Instant(capped(tick, v))
	}
	return min(at, t.until)
}

// wasExtended reports whether the term was extended since ExtendAll was called last, or need not
// be. Manager.mu and mu are held.
func (t *Term) wasExtended() bool {
	since := t.manager.extendAll
	return since == 0 || t.ttl == 0 || t.until >= min(since.after(Validity(t.ttl)), t.maxHoldEnd)
}

// failed reports whether the last extension failed. mu is held.
func (t *Term) failed() bool { return t.cold != nil && t.cold.failure != nil }

// evaluate is what the manager calls when the time of a term's event has come. over says whether
// the term is over. Otherwise next is the time of its next event. If the term is due for an
// extension, next is its deadline, and the extension must begin at lingerUntil at the latest; 0
// means that it is not due. A term whose last extension failed, or that is late, does not linger.
func (t *Term) evaluate(now Instant) (next, lingerUntil Instant, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end != nil || now >= t.until {
		return 0, 0, true
	}
	v, left := Validity(t.ttl), time.Duration(t.until-now)
	early, late := dueWith(v)
	if t.wantsExtension() &&
		(left <= early+capped(linger, v)+capped(tick, v) || !t.wasExtended()) {
		t.queued, lingerUntil = true, now
		if left > late && !t.failed() {
			lingerUntil = now.after(capped(linger, v))
		}
	}
	return t.computeNext(now), lingerUntil, false
}

package batch

import (
	"context"
	"runtime"
)

// yields is how often sealing lets other goroutines run before it takes a round, if the round
// before had more than one operation. The callers that the last trip woke come first, and their
// next operations are part of this round.
const yields = 2

// advance starts what has become possible: trips, and sealing. All that change what these depend on
// call it, before they release mu. mu is held.
func (l *Log[Op, State]) advance() {
	for i := range l.readers {
		if l.canStart(i) {
			l.start(l.take(i, l.idleTrip()))
		}
	}
	if l.startSealing() {
		l.start(l.idleTrip())
	}
	l.tellIdle()
}

// startSealing reports whether the caller is to seal rounds, once it has released mu. mu is held.
func (l *Log[Op, State]) startSealing() bool {
	if l.sealing || !l.canSeal() {
		return false
	}
	l.sealing = true
	return true
}

// canSeal reports whether a round waits, and enough of its readers are ready for it: a quorum, or
// all that read if these are fewer. If none reads, it waits for one, unless so many are Out that no
// quorum is possible, or rounds wait behind it and others read, who may be for these. mu is held.
func (l *Log[Op, State]) canSeal() bool {
	if len(l.open) == 0 {
		return false
	}
	reading, ready, out, wanted, others := 0, 0, 0, 0, 0
	for i := range l.readers {
		r := &l.readers[i]
		reads := r.state == Reading && !r.hangs
		switch {
		case r.state == Out:
			out++
			continue
		case !l.open[0].isFor(i):
			if reads {
				others++
			}
			continue
		}
		wanted++
		if reads {
			reading++
			if l.mayStart(i) { // then nothing is unread: it would have been started
				ready++
			}
		}
	}
	if reading == 0 {
		return wanted == 0 || out > len(l.readers)-l.cfg.Quorum || len(l.open) > 1 && others > 0
	}
	return ready >= min(l.cfg.Quorum, reading)
}

// seal seals a round, if enough readers are still ready, and starts the trips of its readers. It
// has an idle trip, of the goroutine that calls it, be one of them, and reports whether it is.
func (l *Log[Op, State]) seal(own *Trip[Op, State]) (used bool) {
	l.mu.Lock()
	if l.usual > 1 {
		l.mu.Unlock()
		for range yields {
			runtime.Gosched()
		}
		l.mu.Lock()
	}
	if !l.canSeal() {
		l.sealing = false
		l.tellIdle()
		l.mu.Unlock()
		return false
	}
	round := l.open[0]
	rest := copy(l.open, l.open[1:])
	l.open[rest], l.open = nil, l.open[:rest]
	l.sealed++
	round.seal(l.sealed)
	l.usual = round.live
	l.waiting -= round.live
	l.limited -= round.limited
	l.mu.Unlock()
	if l.cfg.Seal != nil {
		l.cfg.Seal(round)
	}
	return l.hand(round, own)
}

// hand gives a sealed round to its readers, and starts their trips. Readers that are Out miss it.
// Readers of which too much is unread miss all of that. See seal for own.
func (l *Log[Op, State]) hand(round *Round[Op, State], own *Trip[Op, State]) (used bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	miss := uint64(0)
	for i := range l.readers {
		if r := &l.readers[i]; round.isFor(i) {
			r.unread = append(r.unread, round)
			r.weight += round.weight
			if r.state == Out || r.weight > l.cfg.Limit && len(r.unread) > 1 {
				miss |= 1 << i
			}
		}
	}
	for i := range l.readers {
		switch {
		case !l.canStart(i):
		case miss == 0 && !used:
			used = true
			l.take(i, own)
		default: // own does not wait for Missed
			l.start(l.take(i, l.idleTrip()))
		}
	}
	for i := range l.readers {
		if miss>>i&1 == 1 {
			l.miss(i, l.takeUnread(i, every))
		}
	}
	l.sealing = false
	l.advance()
	return used
}

// Close refuses operations from now on. It returns nil when all that were taken, and their
// follow-ups, were read or missed. It returns ctx's error when ctx ends first. The trips continue
// then, and a further Close may wait for them again.
func (l *Log[Op, State]) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	for _, t := range l.parked {
		close(t.wake)
	}
	l.parked = nil
	l.tellIdle()
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tellIdle tells Close if nothing is left. mu is held.
func (l *Log[Op, State]) tellIdle() {
	if l.idle == nil || l.waiting > 0 || l.sealing || l.missing > 0 {
		return
	}
	for i := range l.readers {
		if r := &l.readers[i]; r.trips > 0 || len(r.unread) > 0 {
			return
		}
	}
	close(l.idle)
	l.idle = nil
}

// Waiting returns how many operations are in the rounds that a reader is to read: open ones, and
// those that it has not read.
func (l *Log[Op, State]) Waiting(i int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.open {
		if r.isFor(i) {
			n += r.live
		}
	}
	for _, r := range l.readers[i].unread {
		n += r.live
	}
	return n
}

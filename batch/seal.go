package batch

import (
	"context"
	"runtime"
)

// yields is how often sealing lets other goroutines run before it takes a round, if the round
// before had more than one operation. The callers that the last trip woke come first, and their
// next operations are part of this round.
const yields = 2

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
			if len(r.unread) == 0 && l.mayStart(i) {
				ready++
			}
		}
	}
	if reading == 0 {
		return wanted == 0 || out > len(l.readers)-l.cfg.Quorum || len(l.open) > 1 && others > 0
	}
	return ready >= min(l.cfg.Quorum, reading)
}

// seal is the step of the sealer. It seals a round, if enough readers are ready, and gives it to
// its readers. Readers that are Out miss it. Readers of which too much is unread miss all of that,
// unless they read now. mu is held, but not while functions of Config run.
func (l *Log[Op, State]) seal() (busy bool) {
	if l.usual > 1 && l.canSeal() {
		l.mu.Unlock()
		for range yields {
			runtime.Gosched()
		}
		l.mu.Lock()
	}
	if !l.canSeal() {
		return false
	}
	round := l.open[0]
	rest := copy(l.open, l.open[1:])
	l.open[rest], l.open = nil, l.open[:rest]
	l.sealed++
	round.number, l.usual = l.sealed, len(round.ops)
	l.limited -= round.limited
	if l.cfg.Seal != nil {
		l.mu.Unlock()
		l.cfg.Seal(round)
		l.mu.Lock()
	}
	miss := uint64(0)
	for i := range l.readers {
		if r := &l.readers[i]; round.isFor(i) {
			r.unread = append(r.unread, round)
			r.weight += round.weight
			if r.state == Out ||
				r.weight > l.cfg.Limit && len(r.unread) > 1 && !l.mayStart(i) {
				miss |= 1 << i
			}
		}
	}
	l.advance() // the trips of the others do not wait for Missed
	for i := range l.readers {
		if miss>>i&1 == 1 {
			l.miss(i, l.takeUnread(i, every))
		}
	}
	l.advance()
	return true
}

// Close refuses operations from now on. It returns nil when all that were taken, and their
// follow-ups, were read or missed, maybe before the last Read has returned. It returns ctx's error
// when ctx ends first. The trips continue then, and a further Close may wait for them again.
func (l *Log[Op, State]) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	for i := range l.readers {
		l.dismiss(&l.readers[i].writer)
	}
	l.dismiss(&l.sealer)
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
	if l.idle == nil || len(l.open) > 0 || l.sealer.awake || l.missing > 0 {
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
			n += len(r.ops)
		}
	}
	for _, r := range l.readers[i].unread {
		n += len(r.ops)
	}
	return n
}

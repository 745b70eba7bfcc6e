package batch

// Trip is one trip of a reader. It belongs to a goroutine, which makes trip after trip with its
// memory until nothing is to be read. Then the goroutine is parked, if that is of use: it has the
// stack that a trip needs. A new goroutine would have to grow its stack, which costs more than the
// rest of a short trip.
type Trip[Op, State any] struct {
	// Reader is the index of the reader.
	Reader int
	// Rounds are the rounds that the trip carries, at least one.
	Rounds []*Round[Op, State]
	// Behind: the reader is far behind the log. It pays to leave out what is over.
	Behind bool

	log    *Log[Op, State]
	weight int
	sent   bool
	wake   chan struct{} // of capacity 1: the parked goroutine goes on; nil: there is none yet
}

// HasMissed reports whether the reader has missed a round that is newer than one of the trip's.
// Then the owner may have done already what comes later in the log. Only Read may call it.
func (t *Trip[Op, State]) HasMissed() bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.log.readers[t.Reader].missed > t.Rounds[0].number
}

// Sent says that another trip may start while this one is under way: what it sends comes later.
// Only Read may call Sent, and only once.
func (t *Trip[Op, State]) Sent() {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	t.sent = true
	l.readers[t.Reader].sending = false
	l.advance()
}

// idleTrip returns a trip that is not under way, of a parked goroutine if there is one. mu is held.
func (l *Log[Op, State]) idleTrip() *Trip[Op, State] {
	last := len(l.parked) - 1
	if last < 0 {
		return &Trip[Op, State]{log: l}
	}
	t := l.parked[last]
	l.parked = l.parked[:last]
	return t
}

// start has the goroutine of an idle trip make it, or seal a round if it has none. mu is held.
func (l *Log[Op, State]) start(t *Trip[Op, State]) {
	if t.wake == nil {
		t.wake = make(chan struct{}, 1)
		go l.run(t)
		return
	}
	t.wake <- struct{}{}
}

// run is the goroutine of a trip. It also seals the next round, if that becomes possible by the end
// of a trip.
func (l *Log[Op, State]) run(t *Trip[Op, State]) {
	for goesOn := true; goesOn; {
		for busy := true; busy; {
			if len(t.Rounds) == 0 {
				busy = l.seal(t)
			} else {
				l.cfg.Read(t)
				busy = l.next(t)
			}
		}
		if !l.park(t) {
			return
		}
		_, goesOn = <-t.wake
	}
}

// park makes the goroutine of a trip one that idleTrip finds. It returns false if there are enough
// of them, or if the log was closed.
func (l *Log[Op, State]) park(t *Trip[Op, State]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.parked) >= len(l.readers) {
		return false
	}
	l.parked = append(l.parked, t)
	return true
}

// take moves the rounds that come next for a reader into an idle trip. mu is held.
func (l *Log[Op, State]) take(i int, t *Trip[Op, State]) *Trip[Op, State] {
	r := &l.readers[i]
	most := l.cfg.MaxWeight
	if t.Behind = r.weight > behind*most; t.Behind {
		most *= behind
	}
	t.Reader, t.weight, t.sent = i, 0, false
	n := 0
	for ; n < len(r.unread) && (n == 0 || t.weight+r.unread[n].weight <= most); n++ {
		t.weight += r.unread[n].weight
	}
	t.Rounds = append(t.Rounds, r.unread[:n]...)
	rest := copy(r.unread, r.unread[n:])
	clear(r.unread[rest:])
	r.unread = r.unread[:rest]
	r.weight -= t.weight
	r.aloft += t.weight
	r.trips++
	r.sending = true
	return t
}

// next ends a trip, and reports whether its goroutine has something to do: another trip of the
// reader, or to seal.
func (l *Log[Op, State]) next(t *Trip[Op, State]) (busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.readers[t.Reader]
	r.trips--
	r.aloft -= t.weight
	r.hangs = false
	if !t.sent {
		r.sending = false
	}
	clear(t.Rounds)
	t.Rounds = t.Rounds[:0]
	if busy = l.canStart(t.Reader); busy {
		l.take(t.Reader, t)
	} else {
		busy = l.startSealing()
	}
	l.advance()
	return busy
}

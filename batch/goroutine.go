package batch

// start has a goroutine make a trip, or seal a round if t is nil. A parked goroutine has the stack
// that a trip needs. A new one would have to grow it, which costs more than the rest of a short
// trip. mu is held.
func (l *Log[Op, State]) start(t *Trip[Op, State]) {
	last := len(l.parked) - 1
	if last < 0 {
		go l.run(t)
		return
	}
	l.parked[last] <- t
	l.parked = l.parked[:last]
}

// run makes trip after trip until nothing is to be read. Then it is parked, if that is of use. It
// begins with sealing if t is nil. It also seals the next round, if that becomes possible by the
// end of a trip.
func (l *Log[Op, State]) run(t *Trip[Op, State]) {
	next := make(chan *Trip[Op, State], 1)
	for waits := true; waits; {
		if t == nil {
			t = l.seal()
		}
		for t != nil {
			l.cfg.Read(t)
			t = l.next(t)
		}
		if !l.park(next) {
			return
		}
		t, waits = <-next
	}
}

// park makes a goroutine one that start finds. It returns false if there are enough of them, or if
// the log was closed.
func (l *Log[Op, State]) park(next chan *Trip[Op, State]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.parked) >= len(l.readers) {
		return false
	}
	l.parked = append(l.parked, next)
	return true
}

// endParked ends the parked goroutines. mu is held.
func (l *Log[Op, State]) endParked() {
	for _, next := range l.parked {
		close(next)
	}
	l.parked = nil
}

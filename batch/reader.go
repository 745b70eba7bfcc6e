package batch

// ReaderState says what becomes of sealed rounds at a reader.
type ReaderState int

const (
	// Reading: the reader reads them.
	Reading ReaderState = iota
	// Paused: they wait until the reader reads again, or is Out, or they are skipped.
	Paused
	// Out: it misses them, and those that it has not read yet.
	Out
)

// reader is one reader of the log. Guarded by the log's mu.
type reader[Op, State any] struct {
	state   ReaderState
	unread  []*Round[Op, State] // sealed, and to be read
	weight  int                 // of unread
	trips   int                 // how many are under way
	aloft   int                 // weight of these
	sending bool                // one of them has not called Sent
	hangs   bool                // no trip starts before one that is under way ends
	misses  int                 // how often it has missed rounds
}

// behind is how many full trips may be unread before a reader is far behind. Then it takes as many
// at once.
const behind = 4

// Trip is one trip of a reader.
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
	misses int
}

// HasMissed reports whether the reader has missed rounds since the trip took its own. Then the
// owner may have done already what is newer than the trip. Only Read may call it.
func (t *Trip[Op, State]) HasMissed() bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.log.readers[t.Reader].misses != t.misses
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

// SetReader changes the state of a reader.
func (l *Log[Op, State]) SetReader(i int, s ReaderState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[i].state = s
	if s == Out {
		l.miss(i, l.takeUnread(i, every), false)
	}
	l.advance()
}

// Hang says that a reader owes an answer for too long. Until one of its trips ends, it does not
// count for a quorum, and no other trip of it starts. Hang does nothing if no trip is under way.
func (l *Log[Op, State]) Hang(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.readers[i]
	r.hangs = r.trips > 0
	l.advance()
}

// Skip lets a reader miss the rounds that it has not read and need not read any more. over must not
// block, and must not call methods of the log.
func (l *Log[Op, State]) Skip(i int, over func(r *Round[Op, State]) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.miss(i, l.takeUnread(i, over), true)
	l.advance()
}

// miss calls Missed, if there is something that the reader misses. Close waits for it. mu is held,
// but not meanwhile.
func (l *Log[Op, State]) miss(i int, rounds []*Round[Op, State], keep bool) {
	if len(rounds) == 0 {
		return
	}
	l.missing++
	l.mu.Unlock()
	kept := l.cfg.Missed(i, rounds, keep)
	l.mu.Lock()
	l.missing--
	if len(kept) == 0 {
		return
	}
	left := &Round[Op, State]{ops: kept, live: len(kept)}
	for _, op := range kept {
		left.weight += l.cfg.Weight(op)
	}
	r := &l.readers[i]
	if r.state == Out {
		l.miss(i, []*Round[Op, State]{left}, false)
		return
	}
	r.unread = append(r.unread, left)
	r.weight += left.weight
}

// takeUnread takes the unread rounds of a reader that are over. The caller passes them to miss. mu
// is held.
func (l *Log[Op, State]) takeUnread(i int, over func(*Round[Op, State]) bool) (
	rounds []*Round[Op, State],
) {
	r := &l.readers[i]
	others := r.unread[:0]
	for _, round := range r.unread {
		if !over(round) {
			others = append(others, round)
			continue
		}
		r.weight -= round.weight
		rounds = append(rounds, round)
	}
	clear(r.unread[len(others):])
	r.unread = others
	if len(rounds) > 0 {
		r.misses++
	}
	return rounds
}

// every is true for each round.
func every[Op, State any](*Round[Op, State]) bool { return true }

// shift moves the first n unread rounds to the end of a list. The log's mu is held.
func (r *reader[Op, State]) shift(to []*Round[Op, State], n int) []*Round[Op, State] {
	for _, round := range r.unread[:n] {
		r.weight -= round.weight
		to = append(to, round)
	}
	rest := copy(r.unread, r.unread[n:])
	clear(r.unread[rest:])
	r.unread = r.unread[:rest]
	return to
}

// mayStart reports whether a trip of the reader may start, as far as that depends on the trips
// under way and on how much waits. mu is held.
func (l *Log[Op, State]) mayStart(i int) bool {
	r := &l.readers[i]
	switch {
	case r.state != Reading || r.sending || r.hangs:
		return false
	case r.trips == 0:
		return true
	case r.trips >= l.cfg.Window || r.aloft >= l.cfg.Window*l.cfg.MaxWeight:
		return false
	}
	enough := l.cfg.OverlapAt(i) << (r.trips - 1)
	waiting := r.weight
	for at := 0; at < len(l.open) && waiting < enough; at++ {
		if l.open[at].isFor(i) {
			waiting += l.open[at].weight
		}
	}
	return waiting >= enough
}

// startTrip returns a new trip with unread rounds; nil if none may start now. mu is held.
func (l *Log[Op, State]) startTrip(i int) *Trip[Op, State] {
	r := &l.readers[i]
	if len(r.unread) == 0 || !l.mayStart(i) {
		return nil
	}
	t := l.newTrip()
	t.Reader = i
	r.trips++
	l.take(t)
	return t
}

// newTrip returns memory for a trip. mu is held.
func (l *Log[Op, State]) newTrip() *Trip[Op, State] {
	last := len(l.spare) - 1
	if last < 0 {
		return &Trip[Op, State]{log: l}
	}
	t := l.spare[last]
	l.spare = l.spare[:last]
	return t
}

// take moves the rounds that come next into a trip. mu is held.
func (l *Log[Op, State]) take(t *Trip[Op, State]) {
	r := &l.readers[t.Reader]
	most := l.cfg.MaxWeight
	if t.Behind = r.weight > behind*most; t.Behind {
		most *= behind
	}
	n := 0
	t.weight = 0
	for _, round := range r.unread {
		if n > 0 && t.weight+round.weight > most {
			break
		}
		t.weight += round.weight
		n++
	}
	t.Rounds = r.shift(t.Rounds[:0], n)
	t.sent, t.misses = false, r.misses
	r.sending = true
	r.aloft += t.weight
}

// next ends a trip, and returns the next one for the same goroutine; nil if there is none.
func (l *Log[Op, State]) next(t *Trip[Op, State]) *Trip[Op, State] {
	l.mu.Lock()
	r := &l.readers[t.Reader]
	r.trips--
	r.aloft -= t.weight
	r.hangs = false
	if !t.sent {
		r.sending = false
	}
	clear(t.Rounds)
	l.spare = append(l.spare, t)
	next := l.startTrip(t.Reader)
	seal := next == nil && l.startSealing()
	l.advance()
	l.mu.Unlock()
	if seal {
		return l.seal()
	}
	return next
}

package batch

// ReaderState says what becomes of sealed rounds at a reader.
type ReaderState int

const (
	// Reading: the reader reads them.
	Reading ReaderState = iota
	// Paused: they wait until the reader reads again, or is Out, or Hang has it miss them.
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
	sending bool                // Read has not returned for the newest of them
	hangs   bool                // no trip starts before one that is under way ends
	missed  uint64              // the number of the newest round that it has missed
	writer  worker              // sends its trips
}

// behind is how many full trips may be unread before a reader is far behind. Then it takes as many
// at once.
const behind = 4

// SetReader changes the state of a reader.
func (l *Log[Op, State]) SetReader(i int, s ReaderState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[i].state = s
	if s == Out {
		l.miss(i, l.takeUnread(i, every))
	}
	l.advance()
}

// Hang says that a reader owes an answer for too long. Until one of its trips ends, it does not
// count for a quorum, and no other trip of it starts, if one is under way. The reader misses the
// unread rounds that are over. over must not block, and must not call methods of the log.
func (l *Log[Op, State]) Hang(i int, over func(r *Round[Op, State]) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.readers[i]
	r.hangs = r.trips > 0
	l.miss(i, l.takeUnread(i, over))
	l.advance()
}

// miss calls Missed, if there is something that the reader misses. Close waits for it. mu is held,
// but not meanwhile.
func (l *Log[Op, State]) miss(i int, rounds []*Round[Op, State]) {
	if len(rounds) == 0 {
		return
	}
	l.missing++
	l.mu.Unlock()
	l.cfg.Missed(i, rounds)
	l.mu.Lock()
	l.missing--
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
		r.missed = max(r.missed, round.number)
		rounds = append(rounds, round)
	}
	clear(r.unread[len(others):])
	r.unread = others
	return rounds
}

// every is true for each round.
func every[Op, State any](*Round[Op, State]) bool { return true }

// canStart reports whether a trip of the reader can start. mu is held.
func (l *Log[Op, State]) canStart(i int) bool {
	return len(l.readers[i].unread) > 0 && l.mayStart(i)
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

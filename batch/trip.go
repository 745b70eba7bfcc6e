package batch

// Trip is one trip of a reader. The reader's writer begins it, and the goroutine that has the last
// answer ends it.
type Trip[Op, State any] struct {
	// Reader is the index of the reader.
	Reader int
	// Rounds are the rounds that the trip carries, at least one.
	Rounds []*Round[Op, State]

	log    *Log[Op, State]
	weight int
	behind bool // the reader is far behind the log
}

// MustLook reports whether some operations may be over. If the reader has missed a round that is
// newer than one of the trip's, the owner may have done already what comes later in the log. If the
// reader is far behind the log, it pays to leave out what is over. Only Read may call MustLook.
func (t *Trip[Op, State]) MustLook() bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.behind || t.log.readers[t.Reader].missed > t.Rounds[0].number
}

// End says that the trip is over: what became of each operation is known. It may come before Read
// has returned, and is called once. The trip and its Rounds belong to the log then.
func (t *Trip[Op, State]) End() {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.readers[t.Reader]
	r.trips--
	r.aloft -= t.weight
	r.hangs = false
	clear(t.Rounds)
	t.Rounds = t.Rounds[:0]
	l.spare = append(l.spare, t)
	l.advance()
}

// send is the step of a reader's writer: it begins a trip. mu is held, but not while Read runs.
func (l *Log[Op, State]) send(i int) (busy bool) {
	if !l.canStart(i) {
		return false
	}
	t := l.take(i)
	l.mu.Unlock()
	l.cfg.Read(t)
	l.mu.Lock()
	l.readers[i].sending = false
	l.advance()
	return true
}

// take begins a trip with the rounds that come next for a reader. mu is held.
func (l *Log[Op, State]) take(i int) *Trip[Op, State] {
	last := len(l.spare) - 1
	if last < 0 {
		last, l.spare = 0, append(l.spare, &Trip[Op, State]{log: l})
	}
	t := l.spare[last]
	l.spare = l.spare[:last]
	r := &l.readers[i]
	most := l.cfg.MaxWeight
	if t.behind = r.weight > behind*most; t.behind {
		most *= behind
	}
	t.Reader, t.weight = i, 0
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

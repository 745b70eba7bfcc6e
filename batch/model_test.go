package batch

import "slices"

// model is a log that is slow and obvious: it keeps nothing that it can count, and does one thing
// at a time until nothing more is possible.
type model struct {
	cfg     Config[op, int]
	open    []*modelRound
	draft   []*modelRound
	readers []modelReader
	sealed  [][]int
	opened  int
	emptied int
}

type modelRound struct {
	number  int // 0: open
	drafted bool
	ops     []*modelOp
}

type modelOp struct {
	*op
	readers   []int
	cancelled bool
	round     *modelRound
}

type modelReader struct {
	state  ReaderState
	hangs  bool
	unread []*modelRound
	trips  []*modelTrip
	missed [][]int
}

type modelTrip struct {
	rounds          []*modelRound
	behind, sent    bool
	missedSinceTake bool
}

func (r *modelRound) live() (ops []*modelOp) {
	for _, o := range r.ops {
		if !o.cancelled {
			ops = append(ops, o)
		}
	}
	return ops
}

func (r *modelRound) ids() (all []int) {
	for _, o := range r.live() {
		all = append(all, o.id)
	}
	return all
}

func (r *modelRound) isFor(i int) bool {
	return slices.ContainsFunc(r.live(), func(o *modelOp) bool {
		return slices.Contains(o.readers, i)
	})
}

func weightOf(rounds ...*modelRound) (sum int) {
	for _, r := range rounds {
		for _, o := range r.live() {
			sum += o.weight
		}
	}
	return sum
}

// append appends to these rounds: m.open or m.draft.
func (m *model) append(rounds *[]*modelRound, o *op, readers []int) (*modelOp, error) {
	limited, drafted := 0, rounds == &m.draft
	for _, r := range slices.Concat(m.open, m.draft) {
		for _, other := range r.live() {
			if !other.followUp {
				limited++
			}
		}
	}
	if !o.followUp && limited >= m.cfg.Limit {
		return nil, ErrOverloaded
	}
	var last *modelRound
	if n := len(*rounds); n > 0 {
		last = (*rounds)[n-1]
	}
	if last == nil || last.drafted != drafted || weightOf(last)+o.weight > m.cfg.MaxWeight ||
		len(last.ops) >= 2*m.cfg.MaxWeight {
		last = &modelRound{drafted: drafted}
		*rounds = append(*rounds, last)
		m.opened++
	}
	own := &modelOp{op: o, readers: readers, round: last}
	last.ops = append(last.ops, own)
	m.settle()
	return own, nil
}

// submit submits the draft.
func (m *model) submit() {
	for _, r := range m.draft {
		if len(r.live()) == 0 {
			m.emptied++
		} else {
			m.open = append(m.open, r)
		}
	}
	m.draft = nil
	m.settle()
}

func (m *model) cancel(o *modelOp) bool {
	if o.round.number > 0 {
		return false
	}
	if o.cancelled = true; len(o.round.live()) == 0 {
		before := len(m.open)
		m.open = slices.DeleteFunc(m.open, func(r *modelRound) bool { return r == o.round })
		m.emptied += before - len(m.open)
	}
	m.settle()
	return true
}

func (m *model) end(reader int, at int) {
	r := &m.readers[reader]
	r.trips = slices.Delete(r.trips, at, at+1)
	r.hangs = false
	m.settle()
}

func (m *model) set(reader int, s ReaderState) {
	m.readers[reader].state = s
	if s == Out {
		m.miss(reader, len(m.readers[reader].unread))
	}
	m.settle()
}

func (m *model) skip(reader int, o *modelOp) {
	n := 0
	for _, r := range m.readers[reader].unread {
		if r.number <= o.round.number {
			n++
		}
	}
	m.miss(reader, n)
	m.settle()
}

// miss lets a reader miss its first unread rounds.
func (m *model) miss(reader, n int) {
	r := &m.readers[reader]
	for _, round := range r.unread[:n] {
		r.missed = append(r.missed, round.ids())
		for _, t := range r.trips {
			t.missedSinceTake = true
		}
	}
	r.unread = slices.Clone(r.unread[n:])
}

// settle does all that is possible.
func (m *model) settle() {
	for {
		for i := range m.readers {
			for m.mayStart(i) && len(m.readers[i].unread) > 0 {
				m.start(i)
			}
		}
		if !m.maySeal() {
			return
		}
		round := m.open[0]
		m.open = m.open[1:]
		m.sealed = append(m.sealed, round.ids())
		round.number = len(m.sealed)
		for i := range m.readers {
			r := &m.readers[i]
			if !round.isFor(i) {
				continue
			}
			r.unread = append(r.unread, round)
			if r.state == Out {
				m.miss(i, 1)
			} else if len(r.unread) > 1 && weightOf(r.unread...) > m.cfg.Limit {
				m.miss(i, len(r.unread)/2)
			}
		}
	}
}

func (m *model) maySeal() bool {
	if len(m.open) == 0 {
		return false
	}
	reading, ready, in, out, others := 0, 0, 0, 0, 0
	for i := range m.readers {
		r := &m.readers[i]
		reads := r.state == Reading && !r.hangs
		switch {
		case r.state == Out:
			out++
		case !m.open[0].isFor(i):
			if reads {
				others++
			}
		default:
			in++
			if reads {
				reading++
				if len(r.unread) == 0 && m.mayStart(i) {
					ready++
				}
			}
		}
	}
	if reading > 0 {
		return ready >= m.cfg.Quorum || ready == reading
	}
	return in == 0 || len(m.readers)-out < m.cfg.Quorum || others > 0 && len(m.open) > 1
}

func (m *model) mayStart(reader int) bool {
	r := &m.readers[reader]
	aloft, waiting := 0, weightOf(r.unread...)
	sending := false
	for _, t := range r.trips {
		aloft += weightOf(t.rounds...)
		sending = sending || !t.sent
	}
	for _, round := range m.open {
		if round.isFor(reader) {
			waiting += weightOf(round)
		}
	}
	if r.state != Reading || r.hangs || sending {
		return false
	}
	enough := m.cfg.OverlapAt(reader)
	for range len(r.trips) - 1 {
		enough *= 2
	}
	return len(r.trips) == 0 || len(r.trips) < m.cfg.Window &&
		aloft < m.cfg.Window*m.cfg.MaxWeight && waiting >= enough
}

func (m *model) start(reader int) {
	r := &m.readers[reader]
	most, n := m.cfg.MaxWeight, 1
	behind := weightOf(r.unread...) > 4*most
	if behind {
		most *= 4
	}
	for n < len(r.unread) && weightOf(r.unread[:n+1]...) <= most {
		n++
	}
	r.trips = append(r.trips, &modelTrip{rounds: slices.Clone(r.unread[:n]), behind: behind})
	r.unread = slices.Clone(r.unread[n:])
}

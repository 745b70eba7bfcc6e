package batch

import "slices"

// model is a log that is slow and obvious: it keeps nothing that it can count, and does one thing
// at a time until nothing more is possible.
type model struct {
	cfg     Config[op, int]
	open    []*modelRound
	readers []modelReader
	sealed  [][]int
	opened  int
	emptied int
}

type modelRound struct {
	number int // 0: open
	ops    []*modelOp
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
	newest int // the number of the newest of these
}

type modelTrip struct {
	rounds       []*modelRound
	behind, sent bool
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
	return slices.ContainsFunc(r.ops, func(o *modelOp) bool {
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

func (m *model) append(o *op, readers []int) (*modelOp, error) {
	limited := 0
	for _, r := range m.open {
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
	if n := len(m.open); n > 0 {
		last = m.open[n-1]
	}
	if last == nil || weightOf(last)+o.weight > m.cfg.MaxWeight {
		last = new(modelRound)
		m.open = append(m.open, last)
		m.opened++
	}
	own := &modelOp{op: o, readers: readers, round: last}
	last.ops = append(last.ops, own)
	m.settle()
	return own, nil
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
	r.trips[at].sent = true
	m.settle()
	r.trips = slices.Delete(r.trips, at, at+1)
	r.hangs = false
	m.settle()
}

func (m *model) set(reader int, s ReaderState) {
	m.readers[reader].state = s
	if s == Out {
		m.miss(reader, all)
	}
	m.settle()
}

func (m *model) hang(reader int, over func(number int) bool) {
	r := &m.readers[reader]
	r.hangs = len(r.trips) > 0
	m.miss(reader, over)
	m.settle()
}

// miss lets a reader miss the unread rounds with these numbers.
func (m *model) miss(reader int, over func(number int) bool) {
	r := &m.readers[reader]
	var others []*modelRound
	for _, round := range r.unread {
		if !over(round.number) {
			others = append(others, round)
			continue
		}
		r.missed = append(r.missed, round.ids())
		r.newest = max(r.newest, round.number)
	}
	r.unread = others
}

// all stands for all rounds.
func all(int) bool { return true }

// settle does all that is possible.
func (m *model) settle() {
	for {
		m.startAll()
		if !m.maySeal() {
			return
		}
		round := m.open[0]
		m.open = m.open[1:]
		m.sealed = append(m.sealed, round.ids())
		round.number = len(m.sealed)
		misses := make([]bool, len(m.readers))
		for i := range m.readers {
			if r := &m.readers[i]; round.isFor(i) {
				r.unread = append(r.unread, round)
				misses[i] = r.state == Out || len(r.unread) > 1 &&
					weightOf(r.unread...) > m.cfg.Limit && !m.mayStart(i)
			}
		}
		m.startAll()
		for i := range m.readers {
			if misses[i] {
				m.miss(i, all)
			}
		}
	}
}

func (m *model) startAll() {
	for i := range m.readers {
		for m.mayStart(i) && len(m.readers[i].unread) > 0 {
			m.start(i)
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

package lease

// schedule is a container/heap of terms by the time of their next event. Each term knows its place,
// so that it can be moved and taken out. A term is usually added with the latest time of all and
// taken out long before that, which costs a few steps.
//
// What lost: a runtime timer for each term (several times the memory), and a timing wheel (exact to
// the millisecond it costs a slot for each, and it wakes up for empty ones).
type schedule []event

type event struct {
	at   instant
	term *Term
}

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at < s[j].at }

func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].term.place, s[j].term.place = int32(i+1), int32(j+1)
}

// Push adds a *Term.
func (s *schedule) Push(x any) {
	t := x.(*Term)
	*s = append(*s, event{t.wake(), t})
	t.place = int32(len(*s))
}

// Pop returns the *Term that heap has put at the end.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	t := (*s)[last].term
	t.place = 0
	(*s)[last] = event{}
	*s = shrunk((*s)[:last])
	return t
}

// queue is a container/heap of terms that are due, the earliest deadline first: so many long leases
// can't starve a short one.
type queue []event

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push adds a *Term.
func (q *queue) Push(x any) {
	t := x.(*Term)
	*q = append(*q, event{t.deadline(), t})
}

// Pop returns the *Term that heap has put at the end.
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last].term
	(*q)[last] = event{}
	*q = shrunk((*q)[:last])
	return t
}

// shrunk gives memory back that was needed once.
func shrunk[S ~[]event](s S) S {
	const worthwhile = 1024
	if cap(s) > worthwhile && len(s) < cap(s)/4 {
		return append(make(S, 0, cap(s)/2), s...)
	}
	return s
}

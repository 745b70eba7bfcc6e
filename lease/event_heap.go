package lease

// children is how many children an event of a heap has. Each level that an event moves writes to
// another term, which is mostly in no cache, and with four children there are half as many.
const children = 4

// eventHeap is a heap of terms by the time of an event. The manager has two.
//
// One has every term that is held, by its next event. Each of these terms knows its index, so that
// it can be moved and taken out. A term is usually added with the latest time of all and taken out
// long before that, which costs a few steps.
//
// The other has the terms that are due, by their deadlines: so many long leases can't starve a
// short one.
//
// Rejected: a runtime timer for each term (several times the memory), and a timing wheel (if it is
// exact to the millisecond it costs a slot for each, and it wakes up for empty ones).
type eventHeap struct {
	events  []event
	indexed bool // the terms know their index
}

type event struct {
	at   Instant
	term *Term
}

// first returns the earliest event of a heap that is not empty.
func (h *eventHeap) first() *event { return &h.events[0] }

// Len returns how many events there are.
func (h *eventHeap) Len() int { return len(h.events) }

// push adds a term with the time of its event.
func (h *eventHeap) push(t *Term, at Instant) {
	h.events = append(h.events, event{at, t})
	h.up(len(h.events) - 1)
}

// pop takes out the term with the earliest event.
func (h *eventHeap) pop() *Term { return h.remove(0) }

// remove takes out the term of the event at i. It gives back memory that was needed only for a
// time.
func (h *eventHeap) remove(i int) *Term {
	t := h.events[i].term
	if h.indexed {
		t.heapIndex = 0
	}
	last := len(h.events) - 1
	moved := h.events[last]
	h.events[last] = event{}
	h.events = h.events[:last]
	if i < last {
		h.events[i] = moved
		h.fix(i)
	}
	const worthwhile = 1024
	if c := cap(h.events); c > worthwhile && last < c/4 {
		h.events = append(make([]event, 0, c/2), h.events...)
	}
	return t
}

// fix moves the event at i, whose time has changed.
func (h *eventHeap) fix(i int) { h.down(h.up(i)) }

// up moves an event to its place among the earlier ones, and returns where that is.
func (h *eventHeap) up(i int) int {
	e := h.events[i]
	for i > 0 {
		parent := (i - 1) / children
		if h.events[parent].at <= e.at {
			break
		}
		h.set(i, h.events[parent])
		i = parent
	}
	h.set(i, e)
	return i
}

// down moves an event to its place among the later ones.
func (h *eventHeap) down(i int) {
	e := h.events[i]
	for {
		first := i*children + 1
		if first >= len(h.events) {
			break
		}
		earliest := first
		for c := first + 1; c < min(first+children, len(h.events)); c++ {
			if h.events[c].at < h.events[earliest].at {
				earliest = c
			}
		}
		if h.events[earliest].at >= e.at {
			break
		}
		h.set(i, h.events[earliest])
		i = earliest
	}
	h.set(i, e)
}

// set puts an event at i.
func (h *eventHeap) set(i int, e event) {
	h.events[i] = e
	if h.indexed {
		e.term.heapIndex = int32(i + 1)
	}
}

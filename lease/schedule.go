package lease

// eventHeap is a container/heap of terms by the time of an event. The manager has two.
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
	when    func(*Term) instant // the time of a term that is added
	indexed bool                // the terms know their index
}

type event struct {
	at   instant
	term *Term
}

// first returns the earliest event of a heap that is not empty.
func (h *eventHeap) first() *event { return &h.events[0] }

func (h *eventHeap) Len() int           { return len(h.events) }
func (h *eventHeap) Less(i, j int) bool { return h.events[i].at < h.events[j].at }

func (h *eventHeap) Swap(i, j int) {
	h.events[i], h.events[j] = h.events[j], h.events[i]
	if h.indexed {
		h.events[i].term.heapIndex, h.events[j].term.heapIndex = int32(i+1), int32(j+1)
	}
}

// Push adds a *Term.
func (h *eventHeap) Push(x any) {
	t := x.(*Term)
	h.events = append(h.events, event{h.when(t), t})
	if h.indexed {
		t.heapIndex = int32(len(h.events))
	}
}

// Pop returns the *Term that package heap has put at the end. It gives back memory that was needed
// only for a time.
func (h *eventHeap) Pop() any {
	last := len(h.events) - 1
	t := h.events[last].term
	if h.indexed {
		t.heapIndex = 0
	}
	h.events[last] = event{}
	h.events = h.events[:last]
	const worthwhile = 1024
	if c := cap(h.events); c > worthwhile && last < c/4 {
		h.events = append(make([]event, 0, c/2), h.events...)
	}
	return t
}

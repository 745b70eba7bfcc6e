package lease

import (
	"sync"
	"time"
)

const (
	// tick is how exactly the manager notices that a term is over of which nobody asked for the context: it only
	// forgets it then. Contexts have timers of their own.
	tick = 100 * time.Millisecond
	// slots is the size of the wheel: terms that last longer than slots*tick are looked at once in a turn.
	slots = 256
)

// Manager knows the terms that last, so that all of them can be ended together, and forgets those whose time ran out.
//
// Terms lie in the slots of a timing wheel by the tick in which they end; a term that was extended meanwhile is moved on when its
// slot comes. Holding and forgetting are each a few pointer writes under one lock, and one timer serves
// all terms; it runs only while there are any. What lost: a timer for each lease (several times the memory), and a heap
// (each extension would have to move its term at once).
//
// All methods are safe for concurrent use.
type Manager struct {
	expired func(owner any) // told of each term whose time ran out, on a timer's goroutine
	epoch   time.Time       // from which ticks count

	mu     sync.Mutex // guards all below; a term's mu may be taken under it, and nothing else
	wheel  [slots]place
	count  int
	next   int64 // the first tick that was not swept
	timer  *time.Timer
	closed bool
}

// place is a term's place in a slot of the wheel, or the head of a slot. Guarded by Manager.mu.
type place struct {
	prev, next *place
	term       *Term
	owner      any
}

// NewManager returns a manager that tells of each term whose time ran out without another end. The callback must not
// block, and may be called from several goroutines at once.
func NewManager(expired func(owner any)) *Manager {
	m := &Manager{expired: expired, epoch: time.Now()}
	for i := range m.wheel {
		m.wheel[i].prev, m.wheel[i].next = &m.wheel[i], &m.wheel[i]
	}
	return m
}

// Hold begins a term that was not used before and lasts until then. It returns ErrClosed after Close, and ErrExpired if the time has
// run out already; then the term is over and the manager does not know it.
func (m *Manager) Hold(t *Term, owner any, until time.Time) error {
	t.mu.Lock()
	t.until = until
	t.lapse()
	end := t.end
	t.mu.Unlock()
	if end != nil {
		return end
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return t.End(ErrClosed)
	}
	t.place.term, t.place.owner = t, owner
	if m.count == 0 {
		m.next = m.ticks(time.Now())
	}
	m.link(&t.place, until)
	if m.count++; m.count == 1 {
		if m.timer == nil {
			m.timer = time.AfterFunc(tick, m.sweep)
		} else {
			m.timer.Reset(tick)
		}
	}
	return nil
}

// Shorten moves the end of a term to until if that is earlier. It comes before a shorter time is sent to anybody, since
// it may take effect there without an answer.
func (m *Manager) Shorten(t *Term, until time.Time) {
	if !t.shorten(until) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := &t.place; p.prev != nil {
		p.prev.next, p.next.prev = p.next, p.prev
		m.link(p, until)
	}
}

// Forget takes a term that is over off the manager. It may be called more than once.
func (m *Manager) Forget(t *Term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlink(&t.place)
}

// Close ends every term with ErrClosed and returns the owners of those that lasted until then. Hold fails from now on.
func (m *Manager) Close() (owners []any) {
	m.mu.Lock()
	m.closed = true
	var terms []*Term
	for i := range m.wheel {
		for head := &m.wheel[i]; head.next != head; {
			terms = append(terms, head.next.term)
			owners = append(owners, head.next.owner)
			m.unlink(head.next)
		}
	}
	m.mu.Unlock()
	held := owners[:0]
	for i, t := range terms {
		if t.End(ErrClosed) == ErrClosed {
			held = append(held, owners[i])
		}
	}
	return held
}

func (m *Manager) ticks(t time.Time) int64 { return int64(t.Sub(m.epoch) / tick) }

// link puts p into the slot of the tick after until, when its term is over for certain, or into the next slot that will be swept; m.mu
// is held.
func (m *Manager) link(p *place, until time.Time) {
	head := &m.wheel[max(m.ticks(until)+1, m.next)%slots]
	p.prev, p.next = head.prev, head
	head.prev.next, head.prev = p, p
}

// unlink takes p out if it is in; m.mu is held.
func (m *Manager) unlink(p *place) {
	if p.prev == nil {
		return
	}
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next, p.owner = nil, nil, nil
	m.count--
}

// sweep looks at the slots whose time has come.
func (m *Manager) sweep() {
	var over []any
	m.mu.Lock()
	last := m.ticks(time.Now())
	from := max(m.next, last-slots+1)
	m.next = last + 1
	for ; from <= last; from++ {
		over = m.sweepSlot(&m.wheel[from%slots], over)
	}
	if m.count > 0 {
		m.timer.Reset(tick)
	}
	m.mu.Unlock()
	for _, owner := range over {
		m.expired(owner)
	}
}

// sweepSlot takes out what is over and moves what lasts longer; m.mu is held.
func (m *Manager) sweepSlot(head *place, over []any) []any {
	first := head.next
	head.prev.next = nil // the slot's terms stand alone until they are linked again
	head.prev, head.next = head, head
	if first == head {
		return over
	}
	for p := first; p != nil; {
		next := p.next
		if until := p.term.Until(); !until.IsZero() {
			m.link(p, until)
		} else {
			if p.term.Err() == ErrExpired {
				over = append(over, p.owner)
			}
			p.prev, p.next, p.owner = nil, nil, nil
			m.count--
		}
		p = next
	}
	return over
}

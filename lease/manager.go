package lease

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// suspensionCheck is how often the manager reads the clock while there are leases. The timers
	// stop while the machine is suspended, so after that the timer of an event may fire too late.
	suspensionCheck = 250 * time.Millisecond
	// sweepAtOnce is how many events are handled under one lock, so that other goroutines do not
	// wait long for it.
	sweepAtOnce = 64
)

// Config says what a Manager does with its leases. All of it is required.
type Config struct {
	// Clock is that of all its instants.
	Clock *Clock
	// Extend makes all of these extensions together, and finishes each one as soon as its outcome
	// is known. The nearest deadline comes first. Extend returns soon after ctx has ended, and
	// keeps none of them.
	Extend func(ctx context.Context, due []Extension)
	// QuorumReachable reports whether an extension can succeed now. While it can't, the leases that
	// are due wait. It must not block.
	QuorumReachable func() bool
	// OnEnd is called once for each term that had begun, with how it ended and for how long it was
	// held. It must not block, and may be called from several goroutines at once.
	OnEnd func(owner any, end error, held time.Duration)
}

// Manager holds leases: it extends those that want it, reports those whose time ran out, and ends
// all of them together.
//
// Each term has one event in a heap: when it is due for an extension, or otherwise when its time
// runs out. One timer, set for the first event, serves all of them, so an end is reported when it
// comes and not at some later tick. If a term was extended meanwhile, the manager notices when the
// event comes, and puts the term back. Terms that are due go into a second heap by deadline.
// Batches are taken from it when there are enough terms, or when they have lingered for long
// enough. The batches under way are bounded.
//
// Lock order: Manager.mu, then Term.mu. Under either lock only three other things are called: the
// cancel function of a context, the clock and Config.QuorumReachable.
//
// All methods are safe for concurrent use.
type Manager struct {
	cfg    Config
	clock  *Clock // of cfg
	ctx    context.Context
	cancel context.CancelFunc // ends the batches under way
	// Batches and sweeps under way; added to under mu, while not closed.
	running sync.WaitGroup

	mu          sync.Mutex // guards all below
	events      eventHeap  // every term held, by the time of its next event
	ready       eventHeap  // terms that are due, by deadline
	lingerUntil Instant    // when the ready ones stop lingering
	extendAll   Instant    // when ExtendAll was called last; 0: never
	batches     int        // under way
	timer       *time.Timer
	timerAt     Instant // when the timer fires, on the monotonic clock alone; 0: it is not set
	closed      bool
}

// NewManager returns a manager without leases. It has neither a goroutine nor a timer until it
// holds some.
func NewManager(cfg Config) *Manager {
	m := &Manager{cfg: cfg, clock: cfg.Clock}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.events.indexed = true
	return m
}

// maxHoldLimit keeps the sum of an instant and maxHold within 64 bits.
const maxHoldLimit = 100 * 365 * 24 * time.Hour

// Grant is what a lease begins with.
type Grant struct {
	// Sent is when the attempt was sent, or earlier.
	Sent Instant
	// TTL is the TTL that was asked for, from Sent on.
	TTL time.Duration
	// Until is when the lease ends at the latest, if that is earlier than TTL says; otherwise 0.
	Until Instant
	// MaxHold is for how long after Sent the manager extends the lease, by TTL each time. 0 means
	// no automatic extension.
	MaxHold time.Duration
}

// Hold begins a term, which was not used before. The error is ErrClosed after Close, and ErrExpired
// if the time has run out already. Then the term is over, and OnEnd is not called.
func (m *Manager) Hold(t *Term, owner any, g Grant) error {
	t.manager, t.owner = m, owner
	if g.MaxHold > 0 {
		t.ttl, t.maxHoldEnd = g.TTL, g.Sent.after(min(g.MaxHold, maxHoldLimit))
	}
	t.until = t.validUntil(g.Sent, g.TTL)
	if g.Until != 0 {
		t.until = min(t.until, g.Until)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.began = m.clock.Now()
	switch {
	case m.closed:
		t.end = ErrClosed
		return t.end
	case t.began >= t.until:
		t.end = ErrExpired
		return t.end
	}
	m.events.push(t, t.nextEvent())
	m.setTimer(m.next(t.began))
	return nil
}

// next returns when the manager must check the events again. mu is held, and there are events.
func (m *Manager) next(now Instant) Instant {
	if m.clock.suspended == nil {
		return m.events.first().at
	}
	return min(m.events.first().at, now.after(suspensionCheck))
}

// remove takes a term out, and reports whether it was in: that is true once for each term.
func (m *Manager) remove(t *Term) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.heapIndex == 0 {
		return false
	}
	m.events.remove(int(t.heapIndex - 1))
	return true
}

// reportEnd reports how a term ended that was taken out.
func (m *Manager) reportEnd(t *Term, end error) {
	m.cfg.OnEnd(t.owner, end, time.Duration(t.until-t.began))
}

// reschedule sets the event of a term whose state has changed.
func (m *Manager) reschedule(t *Term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.heapIndex == 0 {
		return // over
	}
	m.moveEvent(t)
}

// moveEvent sets the event of a term that is held. mu is held.
func (m *Manager) moveEvent(t *Term) {
	m.events.events[t.heapIndex-1].at = t.nextEvent()
	m.events.fix(int(t.heapIndex - 1))
	m.setTimer(m.events.first().at)
}

// setTimer sets the timer, unless it fires before that anyway. mu is held.
func (m *Manager) setTimer(at Instant) {
	awake := at.after(-m.clock.lastSuspended()) // as the timer counts
	if m.timerAt != 0 && m.timerAt <= awake {
		return
	}
	m.timerAt = awake
	if d := time.Duration(at - m.clock.Now()); m.timer == nil {
		m.timer = time.AfterFunc(d, m.sweep)
	} else {
		m.timer.Reset(d)
	}
}

// sweep handles the events whose time has come. It sets the timer for later events before it
// reports any end.
func (m *Manager) sweep() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.timerAt = 0
	m.running.Add(1)
	m.mu.Unlock()
	defer m.running.Done()
	var over []*Term
	for more := true; more; {
		before := len(over)
		over, more = m.sweepSome(over)
		for _, t := range over[before:] {
			_ = t.Err() // ends it, and its context
		}
	}
	for _, t := range over {
		m.reportEnd(t, t.Err())
	}
}

// sweepSome handles a few events, and appends the terms that are over. After the last one it sets
// the timer again.
func (m *Manager) sweepSome(over []*Term) (_ []*Term, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for n := 0; m.events.Len() > 0 && m.events.first().at <= now; n++ {
		if n == sweepAtOnce {
			return over, true
		}
		t := m.events.first().term
		next, lingerUntil, ended := t.evaluate(now)
		if ended {
			m.events.pop()
			over = append(over, t)
			continue
		}
		m.events.first().at = next
		m.events.fix(0)
		if lingerUntil == 0 {
			continue
		}
		if m.ready.Len() == 0 || lingerUntil < m.lingerUntil {
			m.lingerUntil = lingerUntil
		}
		m.ready.push(t, next)
	}
	m.startWorkers(now)
	if m.events.Len() > 0 {
		m.setTimer(m.next(now))
	}
	return over, false
}

// ExtendAll has every term extended soon that is extended automatically, although it may not be
// due. AllExtended reports when that is done.
func (m *Manager) ExtendAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.events.Len() == 0 {
		return
	}
	m.extendAll = m.clock.Now()
	for i := range m.events.events { // which stays a heap
		e := &m.events.events[i]
		e.at = min(e.at, m.extendAll)
	}
	m.setTimer(m.extendAll)
}

// AllExtended reports whether no term is held that ExtendAll has not extended yet.
func (m *Manager) AllExtended() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(m.events.events, func(e event) bool {
		e.term.mu.Lock()
		defer e.term.mu.Unlock()
		return e.term.end == nil && !e.term.wasExtended()
	})
}

// Close ends every term with ErrClosed, and the extensions under way. It returns the owners of the
// terms that lasted until then. From now on Hold fails.
func (m *Manager) Close() (owners []any) {
	m.mu.Lock()
	m.closed = true
	held := m.events.events
	for _, e := range held {
		e.term.heapIndex = 0
	}
	m.events.events, m.ready.events = nil, nil
	if m.timer != nil {
		m.timer.Stop()
	}
	m.mu.Unlock()
	for _, e := range held {
		end := e.term.endWith(ErrClosed)
		if m.reportEnd(e.term, end); end == ErrClosed {
			owners = append(owners, e.term.owner)
		}
	}
	m.cancel()
	m.running.Wait()
	return owners
}

// Held returns how many leases are held now.
func (m *Manager) Held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events.Len()
}

package lease

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBatch is the most leases that are extended in one go.
	maxBatch = 256
	// enough is how many due leases do not linger for more: larger batches cost hardly less, and
	// whoever acquires waits behind them.
	enough = 32
	// maxBatches is the most batches under way. While one hangs the others go on; when all do, what
	// is due waits in the order of the deadlines.
	maxBatches = 8
	// recheck is how often Ready is asked again while leases are due and it says no.
	recheck = 10 * time.Millisecond
	// suspensionCheck is how often the manager looks at the clock while there are leases. The
	// timers stop while the machine is suspended, so the timer of an event may fire too late after
	// that.
	suspensionCheck = 250 * time.Millisecond
	// sweepAtOnce is how many events are handled under one lock, so that others are not kept
	// waiting.
	sweepAtOnce = 64
)

// Config says what a Manager does with its leases. All of it but Suspended is required.
type Config struct {
	// Extend makes all of these extensions, in one go, and finishes each one as soon as its outcome
	// is known: those with the nearest deadline come first. It returns soon after ctx has ended,
	// and keeps none of them.
	Extend func(ctx context.Context, due []Extension)
	// Ready reports whether an extension has any chance at present. While it has none, what is due
	// waits, instead of trying in vain. It must not block.
	Ready func() bool
	// Over is told once of each term that had begun how it ended, and for how long it was held. It
	// must not block, and may be called from several goroutines at once.
	Over func(end error, held time.Duration)
	// Ended is told once of each lease that ended by ErrExpired or ErrLost, and how. It must not
	// block, and may be called from several goroutines at once.
	Ended func(owner any, end error)
	// Suspended returns for how long the machine was suspended until now, counted from some fixed
	// moment. now comes from time.Now, just before. Suspended must not block or take a mutex, and
	// its results must not fall. Several goroutines may call it at once. nil: the monotonic clock
	// does not stop.
	Suspended func(now time.Time) time.Duration
}

// Manager holds leases: it extends those that want it, tells of those whose time ran out, and ends
// all of them together.
//
// Each term has one event in a heap: when it is due for an extension, or else when its time runs
// out. One timer, set for the first event, serves all of them, so the end is told when it comes and
// not at some later tick. A term that was extended meanwhile is found so when its event comes, and
// put back. What is due goes into a second heap by deadline, from which batches are taken, when
// there are enough of them or they have lingered for long enough; batches under way are bounded.
//
// The manager has a clock of its own: the monotonic clock plus Config.Suspended. The nodes' keys
// expire while this machine is suspended, and Go's monotonic clock stands still then. All instants
// are on the manager's clock, so a suspension brings each event nearer and changes none of them. A
// time that comes from outside is a reading of the monotonic clock alone. To find its instant, the
// manager must know for how long the machine had been suspended at that time. So the caller asks
// Manager.Suspended before it reads the time. That sum can only be too small then: if the machine
// was suspended between the two, the lease ends too early by that, and never too late.
//
// Lock order: Manager.mu, then Term.mu. Nothing else is called under either but the cancelling of a
// context and Config.Suspended.
//
// All methods are safe for concurrent use.
type Manager struct {
	cfg    Config
	epoch  time.Time // from which instants count
	ctx    context.Context
	cancel context.CancelFunc // ends the batches under way
	// Batches and sweeps under way; added to under mu, while not closed.
	running   sync.WaitGroup
	suspended atomic.Int64  // what Config.Suspended returned last; as nanoseconds
	extended  atomic.Uint64 // extensions confirmed
	expired   atomic.Uint64 // leases ended by ErrExpired
	lost      atomic.Uint64 // leases ended by ErrLost

	mu      sync.Mutex // guards all below
	events  schedule   // every term held, by the time of its next event
	ready   queue      // terms that are due, by deadline
	latest  instant    // when the ready ones linger no more
	batches int        // under way
	// Memory of batches, at most maxBatches; an extension is large, and there may be ten thousands
	// a second.
	spare  [][]Extension
	timer  *time.Timer
	armed  instant // when the timer fires, on the monotonic clock alone; 0: it does not
	closed bool
}

// NewManager returns a manager without leases; it has neither a goroutine nor a timer until there
// are some.
func NewManager(cfg Config) *Manager {
	m := &Manager{cfg: cfg, epoch: time.Now().Add(-1)} // no instant is 0
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// now is the present.
func (m *Manager) now() instant {
	t := time.Now()
	if m.cfg.Suspended == nil {
		return m.at(t, 0)
	}
	suspended := m.cfg.Suspended(t)
	for last := m.seen(); suspended > last; last = m.seen() {
		m.suspended.CompareAndSwap(int64(last), int64(suspended))
	}
	return m.at(t, suspended)
}

// Suspended looks at the clock and returns for how long the machine was suspended until now. A call
// asks it before it takes the time that Grant.Sent says.
func (m *Manager) Suspended() time.Duration {
	m.now()
	return m.seen()
}

// seen is what Suspended returned at the latest look.
func (m *Manager) seen() time.Duration { return time.Duration(m.suspended.Load()) }

// Left returns how long it is until that time, when the machine had been suspended for that long at
// the moment that the time was computed.
func (m *Manager) Left(until time.Time, suspended time.Duration) time.Duration {
	return time.Duration(m.at(until, suspended) - m.now())
}

// at is an instant of the clock, when the machine had been suspended for that long. time is the
// reverse, if the machine is not suspended between the latest look and then.
func (m *Manager) at(t time.Time, suspended time.Duration) instant {
	return instant(t.Sub(m.epoch) + suspended)
}

func (m *Manager) time(i instant) time.Time { return m.epoch.Add(time.Duration(i) - m.seen()) }

// maxHoldLimit keeps the sum of an instant and maxHold within 64 bits.
const maxHoldLimit = 100 * 365 * 24 * time.Hour

// Grant is what a lease begins with.
type Grant struct {
	// Sent is when it was asked for, or earlier.
	Sent time.Time
	// Suspended is what Manager.Suspended returned before Sent, and before Until was computed.
	Suspended time.Duration
	// TTL is what it was asked for with, from Sent on.
	TTL time.Duration
	// Until is when it ends at the latest, where that is earlier than TTL says; else zero.
	Until time.Time
	// MaxHold, where it is above 0, has the lease extended by itself, by TTL again and again until
	// MaxHold after Sent.
	MaxHold time.Duration
}

// Hold begins a term, which was not used before. The error is ErrClosed after Close, and ErrExpired
// if the time has run out already; then the term is over and Ended is not told.
func (m *Manager) Hold(t *Term, owner any, g Grant) error {
	t.manager, t.owner = m, owner
	sent := m.at(g.Sent, g.Suspended)
	if g.MaxHold > 0 {
		t.ttl, t.bound = g.TTL, sent.after(min(g.MaxHold, maxHoldLimit))
	}
	t.until = t.reach(sent, g.TTL)
	if !g.Until.IsZero() {
		t.until = min(t.until, m.at(g.Until, g.Suspended))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.began = m.now()
	switch {
	case m.closed:
		return t.refuse(ErrClosed)
	case t.began >= t.until:
		return t.refuse(ErrExpired)
	}
	heap.Push(&m.events, t)
	m.arm(m.next(t.began))
	return nil
}

// next is when the manager has to look again; mu is held, and there are events.
func (m *Manager) next(now instant) instant {
	if m.cfg.Suspended == nil {
		return m.events[0].at
	}
	return min(m.events[0].at, now.after(suspensionCheck))
}

// remove takes a term out, and reports whether it was in: that is so once for each.
func (m *Manager) remove(t *Term) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.place == 0 {
		return false
	}
	heap.Remove(&m.events, int(t.place-1))
	return true
}

// tell tells of a term that was taken out how it ended.
func (m *Manager) tell(t *Term, end error) {
	m.cfg.Over(end, time.Duration(t.over-t.began))
	if !involuntary(end) {
		return
	}
	if isLost(end) {
		m.lost.Add(1)
	} else {
		m.expired.Add(1)
	}
	m.cfg.Ended(t.owner, end)
}

// reschedule sets the event of a term whose state has changed.
func (m *Manager) reschedule(t *Term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.place == 0 {
		return // over
	}
	m.update(t)
}

// update sets the event of a term that is held; mu is held.
func (m *Manager) update(t *Term) {
	m.events[t.place-1].at = t.wake()
	heap.Fix(&m.events, int(t.place-1))
	m.arm(m.events[0].at)
}

// arm sets the timer, unless it fires before that anyway; mu is held.
func (m *Manager) arm(at instant) {
	awake := at.after(-m.seen()) // as the timer counts
	if m.armed != 0 && m.armed <= awake {
		return
	}
	m.armed = awake
	if d := time.Duration(at - m.now()); m.timer == nil {
		m.timer = time.AfterFunc(d, m.sweep)
	} else {
		m.timer.Reset(d)
	}
}

// sweep handles the events whose time has come, and sets the timer for those to come before it
// tells of any.
func (m *Manager) sweep() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.armed = 0
	m.running.Add(1)
	m.mu.Unlock()
	defer m.running.Done()
	var over []*Term
	for more := true; more; {
		told := len(over)
		over, more = m.sweepSome(over)
		for _, t := range over[told:] {
			_ = t.Err() // ends it, and its context
		}
	}
	for _, t := range over {
		m.tell(t, t.Err())
	}
}

// sweepSome handles a few events, and appends the terms that are over. After the last one it sets
// the timer again.
func (m *Manager) sweepSome(over []*Term) (_ []*Term, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for n := 0; len(m.events) > 0 && m.events[0].at <= now; n++ {
		if n == sweepAtOnce {
			return over, true
		}
		t := m.events[0].term
		next, latest, ended := t.look(now)
		if ended {
			heap.Pop(&m.events)
			over = append(over, t)
			continue
		}
		m.events[0].at = next
		heap.Fix(&m.events, 0)
		if latest == 0 {
			continue
		}
		if len(m.ready) == 0 || latest < m.latest {
			m.latest = latest
		}
		heap.Push(&m.ready, t)
	}
	m.start(now)
	if len(m.events) > 0 {
		m.arm(m.next(now))
	}
	return over, false
}

// start starts as many batches as there is work for; mu is held.
func (m *Manager) start(now instant) {
	if m.closed || !m.able(now) {
		return
	}
	for n := len(m.ready); n > 0 && m.batches < maxBatches; n -= maxBatch {
		m.batches++
		m.running.Go(m.extend)
	}
}

// able reports whether there is anything to extend now and a chance to do it; mu is held.
func (m *Manager) able(now instant) bool {
	if len(m.ready) == 0 {
		return false
	}
	if len(m.ready) < enough && now < m.latest {
		m.arm(m.latest)
		return false
	}
	if m.cfg.Ready() {
		return true
	}
	for n := 0; n < sweepAtOnce && len(m.ready) > 0 && m.ready[0].at <= now; n++ {
		m.pass(heap.Pop(&m.ready).(*Term)) // most likely it is over
	}
	if len(m.ready) > 0 {
		m.arm(now.after(recheck))
	}
	return false
}

// pass leaves out a term that was ready; mu is held.
func (m *Manager) pass(t *Term) {
	if t.unqueue(); t.place != 0 {
		m.update(t)
	}
}

// extend makes one batch after the other until nothing is due.
func (m *Manager) extend() {
	for batch, more := m.batch(nil); more; batch, more = m.batch(batch) {
		if len(batch) > 0 {
			m.cfg.Extend(m.ctx, batch)
		}
	}
}

// batch takes the next batch, in the memory of the one before, if there was one. Where there is no
// more, the goroutine ends.
func (m *Manager) batch(before []Extension) (batch []Extension, more bool) {
	clear(before)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if m.closed || !m.able(now) {
		m.batches--
		if before != nil {
			m.spare = append(m.spare, before)
		}
		return nil, false
	}
	if batch = before[:0]; batch == nil && len(m.spare) > 0 {
		last := len(m.spare) - 1
		batch, m.spare = m.spare[last][:0], m.spare[:last]
	}
	for n := 0; n < maxBatch && len(m.ready) > 0; n++ {
		t := heap.Pop(&m.ready).(*Term)
		if e, ok := t.due(now); ok {
			batch = append(batch, e)
		} else {
			m.pass(t)
		}
	}
	return batch, true
}

// Close ends every term with ErrClosed and the extensions under way, and returns the owners of
// those terms that lasted until then. Hold fails from now on.
func (m *Manager) Close() (owners []any) {
	m.mu.Lock()
	m.closed = true
	held := m.events
	for _, e := range held {
		e.term.place = 0
	}
	m.events, m.ready = nil, nil
	if m.timer != nil {
		m.timer.Stop()
	}
	m.mu.Unlock()
	for _, e := range held {
		end := e.term.stop(ErrClosed)
		if m.tell(e.term, end); end == ErrClosed {
			owners = append(owners, e.term.owner)
		}
	}
	m.cancel()
	m.running.Wait()
	return owners
}

// Stats is what a Manager has counted.
type Stats struct {
	Held                    int // leases held now
	Extended, Expired, Lost uint64
}

// Stats returns the counts.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	held := len(m.events)
	m.mu.Unlock()
	return Stats{held, m.extended.Load(), m.expired.Load(), m.lost.Load()}
}

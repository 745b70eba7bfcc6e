package lease

import "time"

const (
	// maxBatch is the most leases that are extended together.
	maxBatch = 256
	// minBatch is how many due leases do not linger for more. Larger batches cost less, but
	// acquiring calls wait behind them. 6,500 leases that are due in a second make such batches
	// within linger.
	minBatch = 64
	// maxBatches is the most batches under way. While one hangs the others continue. While all
	// hang, the leases that are due wait in the order of their deadlines.
	maxBatches = 8
	// recheck is how often QuorumReachable is asked again while leases are due and it says no.
	recheck = 10 * time.Millisecond
)

// startWorkers starts a goroutine for each batch that is due. mu is held.
func (m *Manager) startWorkers(now Instant) {
	if m.closed || !m.canStart(now) {
		return
	}
	for n := m.ready.Len(); n > 0 && m.batches < maxBatches; n -= maxBatch {
		m.batches++
		m.running.Go(m.extendBatches)
	}
}

// canStart reports whether there is anything to extend now, and whether that can succeed. mu is
// held.
func (m *Manager) canStart(now Instant) bool {
	if m.ready.Len() == 0 {
		return false
	}
	if m.ready.Len() < minBatch && now < m.lingerUntil {
		m.setTimer(m.lingerUntil)
		return false
	}
	if m.cfg.QuorumReachable() {
		return true
	}
	for n := 0; n < sweepAtOnce && m.ready.Len() > 0 && m.ready.first().at <= now; n++ {
		m.requeue(m.ready.pop()) // most likely it is over
	}
	if m.ready.Len() > 0 {
		m.setTimer(now.after(recheck))
	}
	return false
}

// requeue takes a term back that was ready, but is not extended now. mu is held.
func (m *Manager) requeue(t *Term) {
	t.mu.Lock()
	t.queued = false
	t.mu.Unlock()
	if t.heapIndex != 0 {
		m.moveEvent(t)
	}
}

// extendBatches makes one batch after another until nothing is due.
func (m *Manager) extendBatches() {
	for batch, more := m.nextBatch(nil); more; batch, more = m.nextBatch(batch) {
		if len(batch) > 0 {
			m.cfg.Extend(m.ctx, batch)
		}
	}
}

// nextBatch takes the next batch, in the memory of the one before, if there was one. more is false
// when the goroutine must end: nothing is due, or nothing can be extended now.
func (m *Manager) nextBatch(before []Extension) (batch []Extension, more bool) {
	clear(before)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if m.closed || !m.canStart(now) {
		m.batches--
		return nil, false
	}
	batch = before[:0]
	for n := 0; n < maxBatch && m.ready.Len() > 0; n++ {
		t := m.ready.pop()
		if e, ok := t.startAuto(now); ok {
			batch = append(batch, e)
		} else {
			m.requeue(t)
		}
	}
	return batch, true
}

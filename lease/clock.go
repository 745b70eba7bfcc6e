package lease

import "time"

// instant is a time on the manager's clock, which also counts while the machine is suspended: in
// nanoseconds since the manager's epoch.
type instant int64

// after returns the instant d later.
func (i instant) after(d time.Duration) instant { return i + instant(d) }

// now returns the present.
func (m *Manager) now() instant {
	t := time.Now()
	if m.cfg.Suspended == nil {
		return m.instantOf(t, 0)
	}
	suspended := m.cfg.Suspended(t)
	for last := m.lastSuspended(); suspended > last; last = m.lastSuspended() {
		m.suspended.CompareAndSwap(int64(last), int64(suspended))
	}
	return m.instantOf(t, suspended)
}

// Suspended reads the clock and returns for how long the machine was suspended until now. A caller
// asks it before it takes the time that is Grant.Sent.
func (m *Manager) Suspended() time.Duration {
	m.now()
	return m.lastSuspended()
}

// lastSuspended returns what Config.Suspended returned last.
func (m *Manager) lastSuspended() time.Duration { return time.Duration(m.suspended.Load()) }

// Left returns how long it is until that time. suspended is for how long the machine had been
// suspended when until was computed.
func (m *Manager) Left(until time.Time, suspended time.Duration) time.Duration {
	return time.Duration(m.instantOf(until, suspended) - m.now())
}

// instantOf returns the instant of a reading of the monotonic clock. suspended is for how long the
// machine had been suspended then.
func (m *Manager) instantOf(t time.Time, suspended time.Duration) instant {
	return instant(t.Sub(m.epoch) + suspended)
}

// timeOf is the reverse of instantOf, if the machine is not suspended between the latest reading of
// the clock and i.
func (m *Manager) timeOf(i instant) time.Time {
	return m.epoch.Add(time.Duration(i) - m.lastSuspended())
}

package keyqueue

import (
	"slices"
	"time"
)

// model is the queue as one list of calls, written from the rules. It looks at all calls after each
// change.
type model struct {
	calls    []*modelCall // in the order of arrival; those that hold keys too
	arrivals int
	passed   map[string]passing
	// The keys that other processes had when a call was refused, and that none was granted since.
	foreign map[string]bool

	ending bool // a reservation ends, and no other begins

	ran, reserved []*guest // who is notified of the last change, in order
}

type modelCall struct {
	guest     *guest
	state     state
	holds     bool
	waitsFor  string // the key that it could not have when it was considered last
	contends  string
	refused   int
	reserves  map[string]bool
	overtaken map[string]int // how many later calls were granted each key
	until     time.Time
	arrival   int
}

func (m *model) find(g *guest) *modelCall {
	for _, c := range m.calls {
		if c.guest == g {
			return c
		}
	}
	return nil
}

func (c *modelCall) wants(key string) bool { return slices.Contains(c.guest.keys, key) }

// owner returns the call that runs with the key or holds it.
func (m *model) owner(key string) *modelCall {
	for _, c := range m.calls {
		if c.state == running && c.wants(key) {
			return c
		}
	}
	return nil
}

func (m *model) available(c *modelCall, key string) bool {
	earlier := true
	for _, o := range m.calls {
		switch {
		case o == c:
			earlier = false
		case o.state == running && o.wants(key), o.contends == key, earlier && o.reserves[key]:
			return false
		}
	}
	return true
}

// first reports whether no call that arrived before c waits for the key.
func (m *model) first(c *modelCall, key string) bool {
	for _, o := range m.calls {
		if o == c {
			return true
		}
		if o.state != running && o.wants(key) {
			return false
		}
	}
	return true
}

// mayReserveAll is rule 3.
func (m *model) mayReserveAll(c *modelCall) bool {
	return !slices.ContainsFunc(c.guest.keys, func(k string) bool {
		return m.foreign[k] || !m.first(c, k) && c.overtaken[k] < maxOvertaken
	})
}

// mayReserve is rule 3 or 5.
func (m *model) mayReserve(c *modelCall, key string) bool {
	overdue := c.refused >= maxOvertaken || slices.ContainsFunc(c.guest.keys, func(k string) bool {
		return c.overtaken[k] >= maxOvertaken
	})
	waitsForSmaller := slices.ContainsFunc(c.guest.keys, func(k string) bool {
		return k <= key && (c.contends == k || !m.available(c, k))
	})
	return m.mayReserveAll(c) || overdue && !waitsForSmaller
}

func (m *model) reserve(c *modelCall) {
	if m.ending || len(c.guest.keys) == 1 {
		return
	}
	var keys []string
	for _, k := range c.guest.keys {
		if m.mayReserve(c, k) {
			keys = append(keys, k)
		}
	}
	more := false
	for _, k := range keys {
		if m.available(c, k) && c.contends != k && !c.reserves[k] {
			for _, o := range m.calls {
				delete(o.reserves, k)
			}
			c.reserves[k], more = true, true
		}
	}
	if more {
		m.reserved = append(m.reserved, c.guest)
	}
}

func (m *model) consider(c *modelCall) {
	for _, k := range c.guest.keys {
		if !m.available(c, k) {
			c.waitsFor = k
			m.reserve(c)
			return
		}
	}
	c.waitsFor, c.state = "", running
	for _, k := range c.guest.keys {
		for _, o := range m.calls {
			delete(o.reserves, k)
		}
	}
	m.ran = append(m.ran, c.guest)
}

func (m *model) settle() {
	for i := 0; i < len(m.calls); i++ {
		if c := m.calls[i]; c.state == waiting && m.available(c, c.waitsFor) {
			m.consider(c)
			i = -1
		}
	}
}

func (m *model) enter(g *guest) (runs bool) {
	m.arrivals++
	c := &modelCall{
		guest: g, state: waiting, arrival: m.arrivals, reserves: map[string]bool{},
		overtaken: map[string]int{},
	}
	m.calls = append(m.calls, c)
	m.consider(c)
	return c.state == running
}

func (m *model) hold(g *guest, until time.Time) {
	c := m.find(g)
	c.until = until
	if c.holds {
		return
	}
	c.holds = true
	for _, k := range g.keys {
		delete(m.foreign, k)
		if p := m.passed[k]; p.yields {
			m.passed[k] = passing{p.since, p.arrivals, false}
		}
	}
	for _, o := range m.calls {
		if o == c {
			return
		}
		for _, k := range g.keys {
			if o.wants(k) && !o.holds {
				o.overtaken[k] += fasterOvertaking
			}
		}
	}
}

func (m *model) contend(g *guest, key string, again bool) {
	c := m.find(g)
	c.state, c.contends, m.foreign[key] = contending, key, true
	c.refused++
	for _, k := range g.keys {
		delete(m.passed, k)
	}
	if !again {
		m.reserve(c)
	}
	m.settle()
	c.refused += fasterOvertaking - 1
}

func (m *model) retry(g *guest) (runs bool) {
	c := m.find(g)
	if c == nil || c.state != contending {
		return false
	}
	c.state, c.waitsFor, c.contends = waiting, c.contends, ""
	m.settle()
	return c.state == running
}

func (m *model) leave(g *guest, now time.Time) {
	c := m.find(g)
	if c == nil {
		return
	}
	for _, k := range g.keys {
		if c.holds && m.passed[k].since.IsZero() {
			m.passed[k] = passing{now, uint64(m.arrivals), false}
		}
	}
	m.calls = slices.DeleteFunc(m.calls, func(o *modelCall) bool { return o == c })
	m.settle()
	for _, k := range g.keys {
		if m.owner(k) == nil {
			delete(m.passed, k)
		}
		if !slices.ContainsFunc(m.calls, func(o *modelCall) bool { return o.wants(k) }) {
			delete(m.foreign, k)
		}
	}
}

func (m *model) giveUp(g *guest) bool {
	if c := m.find(g); c == nil || c.state == running {
		return false
	}
	m.leave(g, time.Time{})
	return true
}

func (m *model) unreserve(g *guest) (keys []string) {
	c := m.find(g)
	if c == nil {
		return nil
	}
	for _, k := range g.keys {
		if c.reserves[k] {
			keys = append(keys, k)
		}
	}
	clear(c.reserves)
	m.ending = true
	m.settle()
	m.ending = false
	return keys
}

// successor says which call rule 1 would let run first if g left, if it wants the same keys.
func (m *model) successor(g *guest, now time.Time) *guest {
	c := m.find(g)
	i := slices.IndexFunc(m.calls, func(o *modelCall) bool {
		return o.state == waiting && c.wants(o.waitsFor)
	})
	if i < 0 || !slices.Equal(m.calls[i].guest.keys, g.keys) {
		return nil
	}
	next := m.calls[i]
	next.state, next.waitsFor = running, ""
	for _, k := range g.keys {
		if m.passed[k].since.IsZero() {
			m.passed[k] = passing{now, uint64(m.arrivals), false}
		}
	}
	m.calls = slices.DeleteFunc(m.calls, func(o *modelCall) bool { return o == c })
	return next.guest
}

func (m *model) passing(g *guest) (since time.Time) {
	for _, k := range g.keys {
		p := m.passed[k].since
		if !p.IsZero() && (since.IsZero() || p.Before(since)) {
			since = p
		}
	}
	return since
}

// served looks at all calls that wait, or run and hold nothing.
func (m *model) served(g *guest) bool {
	return !slices.ContainsFunc(m.calls, func(c *modelCall) bool {
		return !c.holds && slices.ContainsFunc(g.keys, func(k string) bool {
			return c.wants(k) && uint64(c.arrival) <= m.passed[k].arrivals
		})
	})
}

func (m *model) yields(g *guest) bool {
	return slices.ContainsFunc(g.keys, func(k string) bool { return m.passed[k].yields })
}

func (m *model) uses(key string) bool {
	return slices.ContainsFunc(m.calls, func(c *modelCall) bool {
		return c.state == running && c.wants(key) || c.contends == key || c.reserves[key]
	})
}

func (m *model) heldUntil(g *guest) (until time.Time) {
	c := m.find(g)
	if c == nil || c.state == running {
		return until
	}
	for _, k := range g.keys {
		before := m.calls[:slices.Index(m.calls, c)]
		if slices.ContainsFunc(before, func(o *modelCall) bool {
			return o.state != running && o.wants(k)
		}) {
			return time.Time{}
		}
		if o := m.owner(k); o != nil && o.guest != g && o.until.After(until) {
			until = o.until
		}
	}
	return until
}

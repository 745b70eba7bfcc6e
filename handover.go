package lockpipe

import (
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// A lease is handed from holder to holder within the process for so long, and so often; then it
	// is released, so that other processes get their turn.
	maxTurns    = 50 * time.Millisecond
	maxHandOver = 1000
	// turnPause is how long the callers of this process stay away then: about what others need to
	// notice and to take it.
	turnPause = 1500 * time.Microsecond
	// enough is how much of the validity that a waiter asked for must be left for it to be content,
	// in quarters.
	enough = 3
)

// turns is what leases have in common that were handed on without a release.
type turns struct {
	since time.Time // when the first of them was acquired, or handed over first
	count int       // how often it was handed over
	// Of the last of them, among those that the claim reserved; 0 where there are none.
	number int64
	fenced bool // whether the last of them asked for it; set by its receiver
}

// gift is a lease on its way from one holder to the next.
type gift struct {
	claim     *multiplex.Claim
	until     time.Time
	suspended time.Duration // for how long the machine had been when until was computed
	turns     *turns
}

// left is how long the lease of a gift is valid yet.
func (c *Client) left(g *gift) time.Duration { return c.leases.Left(g.until, g.suspended) }

// handOver passes the lease to the caller of this process that waits for the same keys, if there is
// one whose turn it is, and reports whether it was passed on, now or before. At that moment the old
// lease is over, and no call on it can touch anything any more.
func (c *Client) handOver(l *Lease) bool {
	if c.rooms.Waiting() == 0 || l.turns.spent() || !l.claim.Certain() {
		return l.turns != nil && l.term.Passed()
	}
	number, left := l.nextNumber()
	if !left {
		return l.term.Passed()
	}
	select {
	case <-c.closed:
		return l.term.Passed()
	default:
	}
	room := [1]string{room(l.Keys())}
	return l.term.PassOn(func(until time.Time, suspended time.Duration) bool {
		return c.rooms.Give(room[:], &gift{l.claim, until, suspended, l.turns.next(number)})
	})
}

func (t *turns) spent() bool {
	return t != nil && (t.count >= maxHandOver || time.Since(t.since) >= maxTurns)
}

func (t *turns) next(number int64) *turns {
	if t == nil {
		return &turns{since: time.Now(), count: 1, number: number}
	}
	return &turns{since: t.since, count: t.count + 1, number: number}
}

// accept makes a lease of a gift. Where too little of its time is left, an extension is sent, which
// has to succeed first. Without a lease it can't be kept, as where the nodes know of no fence for
// it and it is to have one.
func (c *Client) accept(g *gift, o call) (*Lease, *multiplex.Attempt) {
	if g.turns.fenced = o.fencing; o.fencing && g.turns.number == 0 {
		return nil, nil
	}
	l := &Lease{client: c, claim: g.claim, turns: g.turns}
	grant := lease.Grant{
		Sent: time.Now(), Suspended: g.suspended, TTL: o.ttl, Until: g.until, MaxHold: o.maxHold,
	}
	switch left, asked := c.left(g), lease.Validity(o.ttl); {
	case left > asked:
		g.claim.MarkOutlives()
	case left < asked*enough/4:
		return l, c.mux.Extend(g.claim, o.ttl, grant.Sent.Add(left), 0, g.claim.Len())
	}
	if !c.keep(l, &o, grant) {
		return nil, nil
	}
	return l, nil
}

// keep begins the term of a lease that was handed over, and reports whether it could.
func (c *Client) keep(l *Lease, o *call, grant lease.Grant) bool {
	if c.leases.Hold(&l.term, l, grant) != nil {
		return false
	}
	c.handovers.Add(1)
	c.meters.grant(o, l.term.Began())
	return true
}

// dispose passes a gift on that its receiver does not want any more.
func (c *Client) dispose(room []string, g *gift) {
	if !c.rooms.Give(room, g) {
		c.mux.Release(g.claim, g.claim.Len())
		c.rooms.Nudge(room, time.Now())
	}
}

// freed tells those who wait for the keys of a lease that was released.
func (c *Client) freed(l *Lease) {
	if c.rooms.Waiting() == 0 {
		return
	}
	from := time.Now()
	if l.turns.spent() {
		from = from.Add(turnPause)
	}
	c.rooms.Nudge([]string{room(l.Keys())}, from)
}

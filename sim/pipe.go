package sim

import (
	"sync"
	"sync/atomic"
	"time"
)

// pipe is one direction between a client and a node. Packets arrive in order, each when it is due.
// While the receiver is stopped, nothing arrives.
type pipe struct {
	stoppedUntil *atomicTime // until when the receiver is stopped
	heldUntil    atomicTime  // until when nothing arrives at any receiver
	// The offset of this pipe, so that a receiver that continues does not read all pipes at the
	// same instant.
	offset time.Duration

	mu         sync.Mutex // guards all below; not held while something is delivered
	queue      []packet
	lastDue    time.Time // when the last packet is due
	timer      *time.Timer
	delivering bool
}

type packet struct {
	due     time.Time
	deliver func()
}

// atomicTime is a point in time that may be moved; safe for concurrent use. The zero value is long
// ago.
type atomicTime struct{ nanos atomic.Int64 }

func (a *atomicTime) set(t time.Time) { a.nanos.Store(t.UnixNano()) }
func (a *atomicTime) get() time.Time  { return time.Unix(0, a.nanos.Load()) }
func (a *atomicTime) inFuture() bool  { return time.Now().Before(a.get()) }

// send calls deliver after d, and after everything that was sent before.
func (p *pipe) send(d time.Duration, deliver func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := time.Now().Add(d)
	if !due.After(p.lastDue) {
		due = p.lastDue.Add(1)
	}
	p.lastDue = due
	p.queue = append(p.queue, packet{due, deliver})
	p.setTimer()
}

// setTimer sets the timer for the first packet. mu is held.
func (p *pipe) setTimer() {
	if p.delivering || len(p.queue) == 0 {
		return
	}
	d := time.Until(p.nextDue())
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.deliverDue)
	} else {
		p.timer.Reset(d)
	}
}

// nextDue returns when the first packet arrives. mu is held.
func (p *pipe) nextDue() time.Time {
	due := p.queue[0].due
	if held := p.heldUntil.get(); held.After(due) {
		due = held
	}
	if from := p.stoppedUntil.get().Add(p.offset); from.After(due) {
		return from
	}
	return due
}

// deliverDue delivers all packets that are due.
func (p *pipe) deliverDue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delivering {
		return
	}
	p.delivering = true
	for len(p.queue) > 0 && !p.nextDue().After(time.Now()) {
		first := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		first.deliver()
		p.mu.Lock()
	}
	p.delivering = false
	p.setTimer()
}

// reschedule is called when stoppedUntil or heldUntil has changed.
func (p *pipe) reschedule() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setTimer()
}

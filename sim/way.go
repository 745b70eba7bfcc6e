package sim

import (
	"sync"
	"sync/atomic"
	"time"
)

// way is one direction between a client and a node. What is sent arrives in order, each piece at
// its time, but nothing arrives while the receiver is stopped.
type way struct {
	stopped *moment // until when the receiver is
	held    moment  // until when nothing arrives whoever receives it
	// Of this way: receivers that go on do not find all ways at the same instant.
	offset time.Duration

	mu      sync.Mutex // guards all below; not held while something is delivered
	queue   []piece
	last    time.Time // when the last of all pieces is due
	timer   *time.Timer
	running bool
}

type piece struct {
	due     time.Time
	deliver func()
}

// moment is a point in time that may be moved; safe for concurrent use. The zero value is long ago.
type moment struct{ nanos atomic.Int64 }

func (m *moment) set(t time.Time) { m.nanos.Store(t.UnixNano()) }
func (m *moment) get() time.Time  { return time.Unix(0, m.nanos.Load()) }
func (m *moment) ahead() bool     { return time.Now().Before(m.get()) }

// send has deliver called after d, and after all that was sent before.
func (w *way) send(d time.Duration, deliver func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := time.Now().Add(d)
	if !due.After(w.last) {
		due = w.last.Add(1)
	}
	w.last = due
	w.queue = append(w.queue, piece{due, deliver})
	w.arm()
}

// arm sets the timer for the first piece. mu is held.
func (w *way) arm() {
	if w.running || len(w.queue) == 0 {
		return
	}
	d := time.Until(w.next())
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.run)
	} else {
		w.timer.Reset(d)
	}
}

// next is when the first piece arrives. mu is held.
func (w *way) next() time.Time {
	due := w.queue[0].due
	if held := w.held.get(); held.After(due) {
		due = held
	}
	if from := w.stopped.get().Add(w.offset); from.After(due) {
		return from
	}
	return due
}

// run delivers what is due.
func (w *way) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return
	}
	w.running = true
	for len(w.queue) > 0 && !w.next().After(time.Now()) {
		p := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		p.deliver()
		w.mu.Lock()
	}
	w.running = false
	w.arm()
}

// review is told that the time until which the receiver is stopped has changed.
func (w *way) review() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arm()
}

package multiplex

import (
	"sync/atomic"
	"time"
)

// progress tells a node that hangs from one that is only busy. An attempt's patience is for the
// node's answer, not for the queue in front of it: without the difference an overload turns into
// time-outs, clean-ups and retries, which leave no time for anything else.
type progress struct {
	epoch   time.Time            // from which the times below count, in nanoseconds; set once
	flights [window]atomic.Int64 // when each flush under way was sent; 0 for none
	last    atomic.Int64         // when a flush was answered last
}

// now is never 0, which stands for none.
func (p *progress) now() int64 { return int64(time.Since(p.epoch)) + 1 }

// begin notes that a flush is sent, and returns the place for end.
func (p *progress) begin() (place int) {
	now := p.now()
	for i := range p.flights {
		if p.flights[i].CompareAndSwap(0, now) {
			return i
		}
	}
	return -1 // the keeper's, beside a full window
}

// end notes that the flush was answered.
func (p *progress) end(place int) {
	p.last.Store(p.now())
	if place >= 0 {
		p.flights[place].Store(0)
	}
}

// idleFor is how long the node has owed an answer: since the oldest flush under way was sent, or
// since the last one was answered where none is.
func (p *progress) idleFor() time.Duration {
	since := p.last.Load()
	oldest := int64(0)
	for i := range p.flights {
		if at := p.flights[i].Load(); at != 0 && (oldest == 0 || at < oldest) {
			oldest = at
		}
	}
	if oldest != 0 {
		since = oldest
	}
	return time.Duration(p.now() - since)
}

package node

import (
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
)

// responsiveness distinguishes a node that hangs from one that is only busy. An operation waits for
// the node's answer, and not for the queue in front of it. Without the difference an overload turns
// into timeouts, clean-ups and retries, which leave no time for anything else.
type responsiveness struct {
	epoch    time.Time                   // from which the times below count; set once
	inFlight [link.MaxTrips]atomic.Int64 // when each flush under way was sent; 0 for none
	last     atomic.Int64                // when a flush was answered last
}

// now is never 0, which stands for none.
func (p *responsiveness) now() int64 { return int64(time.Since(p.epoch)) + 1 }

// flushSent notes that a flush is sent, and returns the slot for flushAnswered.
func (p *responsiveness) flushSent() (slot int) {
	now := p.now()
	for i := range p.inFlight {
		if p.inFlight[i].CompareAndSwap(0, now) {
			return i
		}
	}
	return -1 // the connector's, while all slots are taken
}

// flushAnswered notes that the flush was answered.
func (p *responsiveness) flushAnswered(slot int) {
	p.last.Store(p.now())
	if slot >= 0 {
		p.inFlight[slot].Store(0)
	}
}

// UnresponsiveFor returns how long the node has owed an answer: since the oldest flush under way
// was sent, or, if there is none, since the last one was answered.
func (n *Node) UnresponsiveFor() time.Duration {
	p := &n.responsiveness
	if oldest := p.oldest(); oldest != 0 {
		return time.Duration(p.now() - oldest)
	}
	return time.Duration(p.now() - p.last.Load())
}

// OwesFor returns how long the oldest flush under way has been; 0 if there is none.
func (n *Node) OwesFor() time.Duration {
	p := &n.responsiveness
	if oldest := p.oldest(); oldest != 0 {
		return time.Duration(p.now() - oldest)
	}
	return 0
}

// oldest returns when the oldest flush under way was sent; 0 if there is none.
func (p *responsiveness) oldest() (oldest int64) {
	for i := range p.inFlight {
		if at := p.inFlight[i].Load(); at != 0 && (oldest == 0 || at < oldest) {
			oldest = at
		}
	}
	return oldest
}

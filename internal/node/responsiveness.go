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

// OwesFor returns how long the node has owed an answer: since the oldest flush under way was sent,
// or, if there is none, since the last one was answered.
func (n *Node) OwesFor() (d time.Duration, underWay bool) {
	p := &n.responsiveness
	since := p.last.Load()
	for i := range p.inFlight {
		if at := p.inFlight[i].Load(); at != 0 && (!underWay || at < since) {
			since, underWay = at, true
		}
	}
	return time.Duration(p.now() - since), underWay
}

// How many keys must wait before they leave while another flush is under way; see batch.Config. On
// a near node, CPU work dominates, so only a full flush overlaps another. On a far node, network
// delay dominates, so overlapping is cheap.
const (
	nearThreshold = MaxFlush
	farThreshold  = 8
	// farRTT is several times the round trip within a data centre's rack, and several times the
	// work for a small flush.
	farRTT = 500 * time.Microsecond
)

// rtt is the fastest flush since the node was connected, in which there is hardly any work. It is
// zero before the first.
type rtt struct{ fastest atomic.Int64 }

func (d *rtt) reset() { d.fastest.Store(0) }

// observe takes the time of a flush.
func (d *rtt) observe(trip time.Duration) {
	for {
		fastest := d.fastest.Load()
		if fastest != 0 && fastest <= int64(trip) ||
			d.fastest.CompareAndSwap(fastest, int64(trip)) {
			return
		}
	}
}

// OverlapThreshold is batch.Config.OverlapAt for the node.
func (n *Node) OverlapThreshold() int { return n.rtt.overlapThreshold() }

// SlowTrip returns a few times the time of a flush without work.
func (n *Node) SlowTrip() time.Duration { return 4 * time.Duration(n.rtt.fastest.Load()) }

func (d *rtt) overlapThreshold() int {
	if d.fastest.Load() >= int64(farRTT) {
		return farThreshold
	}
	return nearThreshold
}

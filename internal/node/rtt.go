package node

import (
	"sync/atomic"
	"time"
)

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

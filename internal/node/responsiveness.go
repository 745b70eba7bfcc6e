package node

import (
	"slices"
	"sync/atomic"
	"time"
)

// responsiveness distinguishes a node that hangs from one that is only busy. An operation waits for
// the node's answer, and not for the queue in front of it. Without the difference an overload turns
// into timeouts, clean-ups and retries, which leave no time for anything else. Guarded by Node.mu,
// but anybody may read fastest.
type responsiveness struct {
	sent []time.Time // when each flush of the log was sent that is under way, the oldest first
	last time.Time   // when a flush was answered last
	// The time of the fastest flush since the node was connected, in which there is hardly any
	// work; 0 before the first.
	fastest atomic.Int64
}

// noteSent notes when a flush of the log is sent.
func (n *Node) noteSent(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = append(n.sent, at)
}

// noteAnswered notes that the oldest flush of the log was answered, and counts that.
func (n *Node) noteAnswered(f *Flush) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = time.Now()
	took := n.last.Sub(n.sent[0])
	n.sent = slices.Delete(n.sent, 0, 1)
	n.Counts.Latency.Observe(took)
	// Without a reply it may not have been sent.
	replied := func(r Answer) bool { return r.Replied }
	if fastest := n.fastest.Load(); (fastest == 0 || int64(took) < fastest) &&
		slices.ContainsFunc(f.Answers, replied) {
		n.fastest.Store(int64(took))
	}
}

// OwesFor returns how long the node has owed an answer: since the oldest flush under way was sent,
// or, if there is none, since the last one was answered.
func (n *Node) OwesFor() (d time.Duration, underWay bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if underWay = len(n.sent) > 0; underWay {
		return time.Since(n.sent[0]), true
	}
	return time.Since(n.last), false
}

// How many keys must wait before they leave while another flush is under way; see batch.Config. On
// a near node, CPU work dominates, so only a full flush overlaps another. On a far node, network
// delay dominates, so overlapping is cheap.
const (
	nearThreshold = MaxFlush
	farThreshold  = 8
	// farTrip is several times the round trip within a data centre's rack, and several times the
	// work for a small flush.
	farTrip = 500 * time.Microsecond
)

// OverlapThreshold is batch.Config.OverlapAt for the node.
func (n *Node) OverlapThreshold() int {
	if n.fastest.Load() >= int64(farTrip) {
		return farThreshold
	}
	return nearThreshold
}

// SlowTrip returns a few times the time of a flush without work.
func (n *Node) SlowTrip() time.Duration { return 4 * time.Duration(n.fastest.Load()) }

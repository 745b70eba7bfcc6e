package multiplex

import "time"

// maxPendingReleases is the most keys whose releases are kept for one node that can't answer them.
// Beyond it the oldest are dropped: their keys end with their TTL.
const maxPendingReleases = 1 << 18

// pendingReleases are the releases that one node could not answer: it was down, the connection
// broke, or it answered with an error. The connector sends them again. Guarded by node.mu.
type pendingReleases struct {
	list    []pendingRelease // oldest first
	keys    int              // of all in list
	dropped uint64           // because their keys expired or because of maxPendingReleases
}

type pendingRelease struct {
	attempt *Attempt
	until   time.Time // when the keys have expired; zero: not known
}

// addPending keeps a release until the node can answer it.
func (n *node) addPending(a *Attempt) {
	until := a.claim.pendingUntil(a, n.index, time.Now())
	n.mu.Lock()
	n.pending.list = append(n.pending.list, pendingRelease{a, until})
	n.pending.keys += a.claim.Len()
	if n.pending.keys > maxPendingReleases {
		oldest := 0
		for ; n.pending.keys > maxPendingReleases*3/4 && oldest < len(n.pending.list)-1; oldest++ {
			n.pending.keys -= n.pending.list[oldest].attempt.claim.Len()
		}
		n.pending.dropped += uint64(oldest)
		n.pending.list = append([]pendingRelease(nil), n.pending.list[oldest:]...)
	}
	n.mu.Unlock()
	notify(n.pendingAdded)
}

// dropExpired drops releases whose keys have expired: that is as good as an answer.
func (n *node) dropExpired() {
	for _, a := range n.takeExpired(time.Now()) {
		n.mux.handleAnswer(a, n.index, answer{vote: granted})
	}
}

// takeExpired takes the releases whose keys have expired.
func (n *node) takeExpired(now time.Time) (over []*Attempt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest := n.pending.list[:0]
	for _, k := range n.pending.list {
		if k.until.IsZero() || now.Before(k.until) {
			rest = append(rest, k)
		} else {
			n.pending.keys -= k.attempt.claim.Len()
			over = append(over, k.attempt)
		}
	}
	n.pending.dropped += uint64(len(over))
	clear(n.pending.list[len(rest):])
	n.pending.list = rest
	return over
}

// takeAllPending takes all releases that are kept.
func (n *node) takeAllPending() []*Attempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	attempts := make([]*Attempt, len(n.pending.list))
	for i, k := range n.pending.list {
		attempts[i] = k.attempt
	}
	n.pending.list, n.pending.keys = nil, 0
	return attempts
}

// resend sends the releases that are kept, a flush at a time so that the node has time for others.
// What it can't answer is kept again. It runs on the connector and bypasses the pipeline. On a new
// connection the releases go before anything else, so that no acquire is refused by a key that only
// waits to be deleted.
func (n *node) resend() {
	n.dropExpired()
	attempts := n.takeAllPending()
	for len(attempts) > 0 {
		count, keys := 1, attempts[0].claim.Len()
		for count < len(attempts) && keys+attempts[count].claim.Len() <= maxFlush {
			keys += attempts[count].claim.Len()
			count++
		}
		some := attempts[:count]
		attempts = attempts[count:]
		answers := make([]answer, len(some))
		n.sendFlush(some, answers)
		n.metrics.countFailures(answers)
		for i, a := range some {
			n.mux.handleAnswer(a, n.index, answers[i])
		}
	}
}

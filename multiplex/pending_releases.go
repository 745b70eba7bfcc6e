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

// add adds a release. Beyond maxPendingReleases it drops the oldest.
func (p *pendingReleases) add(r pendingRelease) {
	p.list = append(p.list, r)
	p.keys += r.attempt.claim.Len()
	if p.keys <= maxPendingReleases {
		return
	}
	oldest := 0
	for ; p.keys > maxPendingReleases*3/4 && oldest < len(p.list)-1; oldest++ {
		p.keys -= p.list[oldest].attempt.claim.Len()
	}
	p.dropped += uint64(oldest)
	p.list = append([]pendingRelease(nil), p.list[oldest:]...)
}

// takeExpired takes the releases whose keys have expired.
func (p *pendingReleases) takeExpired(now time.Time) (expired []*Attempt) {
	others := p.list[:0]
	for _, r := range p.list {
		if r.until.IsZero() || now.Before(r.until) {
			others = append(others, r)
		} else {
			p.keys -= r.attempt.claim.Len()
			expired = append(expired, r.attempt)
		}
	}
	clear(p.list[len(others):])
	p.list = others
	return expired
}

// takeAll takes all releases.
func (p *pendingReleases) takeAll() []*Attempt {
	attempts := make([]*Attempt, len(p.list))
	for i, r := range p.list {
		attempts[i] = r.attempt
	}
	p.list, p.keys = nil, 0
	return attempts
}

// addPending keeps a release until the node can answer it.
func (n *node) addPending(a *Attempt) {
	until := a.claim.pendingUntil(a, n.index, time.Now())
	n.mu.Lock()
	n.pending.add(pendingRelease{a, until})
	n.mu.Unlock()
	notify(n.pendingAdded)
	n.link.Wake()
}

// dropExpired drops releases whose keys have expired: that is as good as an answer.
func (n *node) dropExpired() {
	n.mu.Lock()
	expired := n.pending.takeExpired(time.Now())
	n.mu.Unlock()
	for _, a := range expired {
		if a.claim.mayChange(n.index) {
			n.addPending(a) // the server may still execute what it was sent before
			continue
		}
		n.mu.Lock()
		n.pending.dropped++
		n.mu.Unlock()
		n.mux.record(a, n.index, answer{vote: granted})
	}
}

// takePending takes all releases that are kept.
func (n *node) takePending() []*Attempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pending.takeAll()
}

// resend sends the releases that are kept, a flush at a time so that the node has time for others.
// What it can't answer is kept again. It runs on the connector and not through the log. On a new
// connection the releases go before anything else, so that no acquire is refused by a key that only
// waits to be deleted.
func (n *node) resend() {
	n.dropExpired()
	attempts := n.takePending()
	for len(attempts) > 0 {
		count, keys := 1, attempts[0].claim.Len()
		for count < len(attempts) && keys+attempts[count].claim.Len() <= maxFlush {
			keys += attempts[count].claim.Len()
			count++
		}
		some := attempts[:count]
		attempts = attempts[count:]
		f := n.newFlush()
		f.attempts = append(f.attempts, some...)
		f.answers = append(f.answers, make([]answer, len(some))...)
		n.sendFlush(f)
		n.metrics.countFailures(f.answers)
		for i, a := range some {
			n.mux.record(a, n.index, f.answers[i])
		}
		n.recycleFlush(f)
	}
}

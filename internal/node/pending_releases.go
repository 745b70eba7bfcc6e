package node

import "time"

// maxPendingReleases is the most keys whose releases are kept for one node that can't answer them:
// a long key counts as several. Beyond it the oldest are dropped: their keys end with their TTL.
const maxPendingReleases = 1 << 18

// pendingReleases are the releases that one node could not answer: it was down, the connection
// broke, or it answered with an error. The connector sends them again. Guarded by Node.mu.
type pendingReleases struct {
	list    []pendingRelease // oldest first
	weight  int              // of all in list
	due     time.Time        // when those in list are sent
	sending int              // how many were taken from list, and have no answer yet
	dropped uint64           // because their keys expired or because of maxPendingReleases
}

type pendingRelease struct {
	operation Operation
	until     time.Time // when the keys have expired; zero: not known
}

// weightOf returns how many keys an operation is worth.
func weightOf(o Operation) int { return o.Op().Keys.Weight() }

// add adds a release. Beyond maxPendingReleases it drops the oldest.
func (p *pendingReleases) add(r pendingRelease) {
	p.list = append(p.list, r)
	p.weight += weightOf(r.operation)
	if p.weight <= maxPendingReleases {
		return
	}
	oldest := 0
	for ; p.weight > maxPendingReleases*3/4 && oldest < len(p.list)-1; oldest++ {
		p.weight -= weightOf(p.list[oldest].operation)
	}
	p.dropped += uint64(oldest)
	p.list = append([]pendingRelease(nil), p.list[oldest:]...)
}

// takeExpired takes the releases whose keys have expired.
func (p *pendingReleases) takeExpired(now time.Time) (expired []Operation) {
	others := p.list[:0]
	for _, r := range p.list {
		if r.until.IsZero() || now.Before(r.until) {
			others = append(others, r)
		} else {
			p.weight -= weightOf(r.operation)
			expired = append(expired, r.operation)
		}
	}
	clear(p.list[len(others):])
	p.list = others
	return expired
}

// takeAll takes all releases.
func (p *pendingReleases) takeAll() []Operation {
	operations := make([]Operation, len(p.list))
	for i, r := range p.list {
		operations[i] = r.operation
	}
	p.sending += len(operations)
	p.list, p.weight, p.due = nil, 0, time.Time{}
	return operations
}

// PendingReleases returns how many releases are kept, and how many were dropped since New.
func (n *Node) PendingReleases() (kept int, dropped uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pending.list) + n.pending.sending, n.pending.dropped
}

// AddPending keeps a release until the node can answer it. A connected node is sent it after
// resendDelay.
func (n *Node) AddPending(o Operation) {
	now := time.Now()
	until := o.PendingUntil(n.index, now)
	n.mu.Lock()
	n.pending.add(pendingRelease{o, until})
	if n.pending.due.IsZero() {
		n.pending.due = now.Add(resendDelay)
	}
	n.mu.Unlock()
	n.Link.Wake()
}

// SendPending has the connector send the releases that are kept as soon as it can, if the node is
// connected. A node that hangs then reads them before what it is sent when it continues.
func (n *Node) SendPending() {
	n.mu.Lock()
	if len(n.pending.list) > 0 {
		n.pending.due = time.Now()
	}
	n.mu.Unlock()
	n.Link.Wake()
}

// pendingDue returns when the releases that are kept are sent. It returns the zero time if there
// are none.
func (n *Node) pendingDue() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pending.due
}

// dropExpired drops releases whose keys have expired: that is as good as an answer.
func (n *Node) dropExpired() {
	n.mu.Lock()
	expired := n.pending.takeExpired(time.Now())
	n.mu.Unlock()
	for _, o := range expired {
		if o.MayChange(n.index) {
			n.AddPending(o) // the server may still execute what it was sent before
			continue
		}
		n.mu.Lock()
		n.pending.dropped++
		n.mu.Unlock()
		o.Record(n.index, Answer{Vote: Granted})
	}
}

// takePending takes all releases that are kept.
func (n *Node) takePending() []Operation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pending.takeAll()
}

// Resend sends the releases that are kept, a flush at a time so that the node has time for others.
// What it can't answer is kept again. It runs on the connector and not through the log. On a new
// connection the releases go before anything else, so that no acquire is refused by a key that only
// waits to be deleted.
func (n *Node) Resend() {
	n.resending <- struct{}{} // while the client closes, not only the connector calls it
	defer func() { <-n.resending }()
	n.dropExpired()
	operations := n.takePending()
	for len(operations) > 0 {
		count, weight := 1, weightOf(operations[0])
		for count < len(operations) && weight+weightOf(operations[count]) <= MaxFlush {
			weight += weightOf(operations[count])
			count++
		}
		some := operations[:count]
		operations = operations[count:]
		n.SendAlone(some)
		n.mu.Lock()
		n.pending.sending -= count
		n.mu.Unlock()
	}
}

// SendAlone makes one trip with operations that are not in the log. It returns when it has recorded
// their answers.
func (n *Node) SendAlone(operations []Operation) {
	f, recorded := n.NewFlush(nil), make(chan struct{})
	f.recorded = recorded
	for _, o := range operations {
		f.Add(o, true)
	}
	go n.SendFlush(f) // which may handle flushes of the log as long as these come
	<-recorded
}

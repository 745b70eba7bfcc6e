package node

import (
	"slices"
	"time"
)

// maxPendingReleases is the most keys whose releases are kept for one node that can't answer them:
// a long key counts as several. Beyond it the oldest are dropped: their keys end with their TTL.
const maxPendingReleases = 1 << 18

// pendingReleases are the releases that one node could not answer: it was down, the connection
// broke, or it answered with an error. The connector sends them again. Guarded by Node.mu.
type pendingReleases struct {
	list    []Operation // oldest first
	weight  int         // of all in list
	due     time.Time   // when those in list are sent
	taken   int         // how many were taken from list, and have no answer yet
	dropped uint64      // because their keys expired or because of maxPendingReleases
}

// weightOf returns how many keys an operation is worth.
func weightOf(o Operation) int { return o.Op().Keys.Weight() }

// add adds a release, to be sent after resendDelay. Beyond maxPendingReleases it drops the oldest.
func (p *pendingReleases) add(o Operation) {
	if len(p.list) == 0 {
		p.due = time.Now().Add(resendDelay)
	}
	p.list = append(p.list, o)
	p.weight += weightOf(o)
	if p.weight <= maxPendingReleases {
		return
	}
	oldest := 0
	for ; p.weight > maxPendingReleases*3/4 && oldest < len(p.list)-1; oldest++ {
		p.weight -= weightOf(p.list[oldest])
	}
	p.dropped += uint64(oldest)
	p.list = slices.Clone(p.list[oldest:])
}

// PendingReleases returns how many releases are kept, and how many were dropped since New.
func (n *Node) PendingReleases() (kept int, dropped uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pending.list) + n.pending.taken, n.pending.dropped
}

// AddPending keeps a release until the node can answer it. A connected node is sent it after
// resendDelay.
func (n *Node) AddPending(o Operation) {
	n.mu.Lock()
	n.pending.add(o)
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

// pendingDue returns when the releases that are kept are sent, if there are any.
func (n *Node) pendingDue() (at time.Time, keeps bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pending.due, len(n.pending.list) > 0
}

// takePending takes all releases that are kept. It drops those whose keys have expired: that is as
// good as an answer.
func (n *Node) takePending() []Operation {
	p := &n.pending
	n.mu.Lock()
	all := p.list
	p.taken += len(all)
	p.list, p.weight = nil, 0
	n.mu.Unlock()
	now, count := time.Now(), len(all)
	all = slices.DeleteFunc(all, func(o Operation) bool {
		expired := o.Expired(n.index, now)
		if expired {
			o.Record(n.index, Answer{Vote: Granted})
		}
		return expired
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	p.taken -= count - len(all)
	p.dropped += uint64(count - len(all))
	return all
}

// NotConnected drops the releases that are not needed any more.
func (n *Node) NotConnected() {
	rest := n.takePending()
	n.mu.Lock()
	defer n.mu.Unlock()
	p, newer := &n.pending, n.pending.list
	p.list, p.weight, p.taken = rest[:0], 0, p.taken-len(rest)
	for _, list := range [][]Operation{rest, newer} {
		for _, o := range list {
			p.add(o)
		}
	}
}

// Resend sends the releases that are kept, a flush at a time so that the node has time for others.
// What it can't answer is kept again. It runs on the connector and not through the log. On a new
// connection the releases go before anything else, so that no acquire is refused by a key that only
// waits to be deleted.
func (n *Node) Resend() {
	n.resending <- struct{}{} // while the client closes, not only the connector calls it
	defer func() { <-n.resending }()
	operations := n.takePending()
	for len(operations) > 0 {
		count, weight := 1, weightOf(operations[0])
		for count < len(operations) && weight+weightOf(operations[count]) <= MaxFlush {
			weight += weightOf(operations[count])
			count++
		}
		n.SendAlone(operations[:count])
		operations = operations[count:]
		n.mu.Lock()
		n.pending.taken -= count
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

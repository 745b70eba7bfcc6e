package multiplex

import (
	"errors"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/batch"
)

var (
	// errSuperseded is the vote of a node to which an attempt was not sent because a newer one came
	// first.
	errSuperseded = errors.New("not sent: a later release or extension took its place")
	// errNotNeeded is the error of a node whose vote could not change the outcome any more.
	errNotNeeded = errors.New("answer not needed: already decided")
	// errCallerGone is the error of a node that had not answered when the caller's context ended.
	errCallerGone = errors.New("no answer before the context ended")
	// errNotAsked is the error of a node that was not asked, because another one was asked first
	// and did not answer in time.
	errNotAsked = errors.New("not asked: the node that was asked first had not answered")
	// errQueuedTooLong is the vote of a node whose queue was longer than the attempt could wait.
	errQueuedTooLong = errors.New("not sent: queued too long")
)

// kind is what an attempt wants of the nodes.
type kind uint8

const (
	acquire kind = iota
	extend
	release
)

// answer is what became of an attempt on one node. The zero value is an unknown vote.
type answer struct {
	vote vote
	// leftNothing: the attempt left nothing on the node, for certain.
	leftNothing bool
	// broken: it was sent, and the connection broke before the answer.
	broken bool
	// replied: the node answered, if only with an error.
	replied bool
	// keyIndex is the index of the key that another token holds, if vote is refused. It is negative
	// if no key is the reason.
	keyIndex int32
	// err says why, if vote is unknown.
	err error
}

// Attempt is one try over all nodes: to acquire, extend or release one claim. When it is returned,
// it was sent to every node that it concerns. Wait returns the decision.
type Attempt struct {
	mux     *Mux
	claim   *Claim
	kind    kind
	ttl     time.Duration // 0 for a release
	ttlText string        // ttl in milliseconds
	sent    time.Time     // before the first byte
	timeout time.Duration // how long Wait waits for the answer of a node
	maxAge  time.Duration // how long, from sent, its outcome is of any use

	calls      []batch.Call[*Attempt]  // one for each node, in configuration order
	callsArray [5]batch.Call[*Attempt] // memory of calls, up to the usual number of nodes

	// Guarded by claim.mu:
	granted, refused, unknown nodeSet // the votes; those of other nodes are open
	// Nodes that a release need not ask: they can't hold the token.
	neverHeld    nodeSet
	blockedLanes nodeSet // nodes that it is not sent to yet, because their lane is busy
	// Nodes that are asked only if the arbiter does not refuse: see Mux.AcquireViaArbiter.
	deferred            nodeSet
	firstTouched        nodeSet // nodes that may hold the token only because of this attempt
	completed           nodeSet // nodes that have answered, or whose pipeline did not take it
	decision            decision
	unconfirmedReported bool // Wait reported that a release is not confirmed yet
	splitCounted        bool // it was counted as a split vote
	done                bool // the caller does not use it any more: see Done
	// When the deferred nodes were asked: in milliseconds from sent, rounded up; 0 if there were
	// none.
	deferredAskedAt uint32
	// Why votes are refused or unknown. It is nil until the first such vote.
	details []voteDetail
	wakers  *Waker // of Wait and Poll
}

// voteDetail is the detail of one node's vote.
type voteDetail struct {
	keyIndex int32
	err      error
	// expiry is when the keys of a release that the node could not answer have expired.
	expiry time.Time
}

func (m *Mux) newAttempt(c *Claim, k kind, ttl, timeout, maxAge time.Duration) *Attempt {
	a := m.newFromPool(k)
	a.mux, a.claim, a.kind, a.ttl, a.timeout, a.maxAge, a.sent = m, c, k, ttl, min(timeout, maxAge),
		maxAge, c.validityStart(k)
	if k != release {
		a.ttlText = m.ttlTextOf(ttl)
	}
	if n := len(m.nodes); n <= len(a.callsArray) {
		a.calls = a.callsArray[:n]
	} else {
		a.calls = make([]batch.Call[*Attempt], n)
	}
	for i := range a.calls {
		a.calls[i].Op = a
	}
	return a
}

// ttlTextOf returns ttl in milliseconds. It saves the allocation for the TTL that most calls have.
func (m *Mux) ttlTextOf(ttl time.Duration) string {
	if ttl == m.cfg.TTL {
		return m.ttlText
	}
	return strconv.FormatInt(ttl.Milliseconds(), 10)
}

// Sent returns the time from which the validity counts, if the attempt succeeds: before the first
// byte was sent.
func (a *Attempt) Sent() time.Time { return a.sent }

// takeLane takes a free lane. It returns false if there is nothing to do on it. claim.mu is held.
func (a *Attempt) takeLane(lane nodeSet) bool {
	c := a.claim
	if c.mayHold&lane == 0 {
		if a.kind == release {
			a.neverHeld |= lane
			return false
		}
		a.firstTouched |= lane
		c.mayHold |= lane
	}
	c.busyLanes |= lane
	return true
}

// skipReason returns why it is of no use to send the attempt now. It is nil if it is of use, and
// always for a release.
func (a *Attempt) skipReason(now time.Time) error {
	switch {
	case a.kind == release:
		return nil
	case now.Sub(a.sent) > a.maxAge:
		return errQueuedTooLong
	case a.kind == extend && a.superseded():
		// It would give the node keys of a lease that is being released.
		return errSuperseded
	}
	return nil
}

// superseded reports whether a later attempt of the claim began.
func (a *Attempt) superseded() bool {
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	return a.claim.latest != a
}

// undoSend undoes takeLane: the attempt left nothing on the node. claim.mu is held.
func (a *Attempt) undoSend(lane nodeSet) {
	a.claim.busyLanes &^= lane
	a.claim.mayHold &^= a.firstTouched & lane
}

// voteUnknown counts lanes as unknown because the attempt is not sent there any more. claim.mu is
// held.
func (a *Attempt) voteUnknown(lanes nodeSet, err error) {
	a.blockedLanes &^= lanes
	a.deferred &^= lanes
	for s := lanes; s != 0; s &= s - 1 {
		i := s.first()
		a.addVote(i, answer{err: err})
	}
}

// addVote takes one vote. After the decision a vote changes nothing of it, but makes the error more
// complete. A release may still win when nodes that could not be reached answer later. claim.mu is
// held.
func (a *Attempt) addVote(i int, r answer) {
	if a.decision == won {
		return
	}
	lane := nodeBit(i)
	a.unknown &^= lane
	switch r.vote {
	case granted:
		a.granted |= lane
	case refused:
		a.refused |= lane
	default:
		a.unknown |= lane
	}
	if r.vote != granted {
		n := a.detail(i)
		n.keyIndex, n.err = r.keyIndex, r.err
	}
	if a.decision == undecided || a.kind == release {
		a.tryDecide()
	}
	if a.kind == acquire && a.decision > won {
		a.countSplit()
	}
}

// detail returns the detail of one node's vote. claim.mu is held.
func (a *Attempt) detail(i int) *voteDetail {
	if a.details == nil {
		a.details = make([]voteDetail, len(a.calls))
	}
	return &a.details[i]
}

// tryDecide decides if the votes allow it, and wakes the callers that wait. claim.mu is held.
func (a *Attempt) tryDecide() {
	d := a.decideWith(a.unknown)
	if d == undecided || d == a.decision {
		return
	}
	a.decision = d
	if c := a.claim; a.kind == extend && c.uncertain != nil &&
		blocksOtherQuorum(len(a.calls), a.granted&^c.uncertain.lostKeys) {
		c.uncertain.lostKeys = 0
	}
	for w := a.wakers; w != nil; w = w.next {
		w.wake()
	}
	a.wakers = nil
}

// decideWith returns the decision if these nodes' votes are unknown. claim.mu is held.
func (a *Attempt) decideWith(unknown nodeSet) decision {
	n := len(a.calls)
	switch a.kind {
	case release:
		return decideRelease(n, a.neverHeld.count(), a.granted.count(), unknown.count())
	case extend:
		return decideExtend(n, a.granted, a.refused, a.claim.lostKeys(), unknown)
	}
	if a.deferred != 0 && a.refused != 0 {
		return held // by the arbiter
	}
	return decide(n, a.granted.count(), a.refused.count(), unknown.count())
}

// unanswered returns the nodes that were asked and whose votes are open. claim.mu is held.
func (a *Attempt) unanswered() nodeSet {
	return allNodes(len(a.calls)) &^ (a.granted | a.refused | a.unknown | a.neverHeld | a.deferred)
}

// countTimeouts counts a timeout for each node that has not answered. claim.mu is held.
func (a *Attempt) countTimeouts() {
	for s := a.unanswered(); s != 0; s &= s - 1 {
		a.mux.nodes[s.first()].metrics.countFailure(failedTimeout, 1)
	}
}

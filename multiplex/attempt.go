package multiplex

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// Attempt is one try over all nodes of one claim: to acquire, extend or release it. When it is
// returned, it was sent to every node that it concerns. Wait returns the decision.
type Attempt struct {
	mux     *Mux
	claim   *Claim
	op      node.Op
	ttl     time.Duration // 0 for a release
	timeout time.Duration // how long Wait waits for the answer of a node
	maxAge  time.Duration // how long, from op.Sent, its outcome is of any use

	asked quorum.Nodes // nodes that it is for; set before the log has it
	added quorum.Nodes // of these, nodes that could not hold the token before; set with asked
	// decided: decision is set, or a newer attempt makes it pointless.
	decided atomic.Bool
	number  uint16 // which acquire or extension of its claim it is; 0 for a release; set once

	// Guarded by claim.mu:
	decision            quorum.Decision
	unconfirmedReported bool   // Wait reported that a release is not confirmed yet
	splitCounted        bool   // it was counted as a split vote
	round               *round // of the log; nil: it is in none
	// The votes; those of other nodes are open.
	granted, refused, unknown quorum.Nodes
	// Nodes that a release need not ask: they can't hold the token.
	neverHeld quorum.Nodes
	// Nodes that may have executed a release, and have not said so.
	tried quorum.Nodes
	// Why votes are refused or unknown. It is nil until the first such vote.
	details []voteDetail
	// earlier is the attempt before it that a node has not answered yet: see Claim.earlier.
	earlier *Attempt
}

// voteDetail is the detail of one node's vote.
type voteDetail struct {
	keyIndex int32
	err      error
	// expiry is when the keys of a release that the node could not answer have expired.
	expiry time.Time
}

func (m *Mux) newAttempt(c *Claim, k node.Kind, ttl, timeout, maxAge time.Duration) *Attempt {
	a := c.emptyAttempt(k)
	a.mux, a.claim, a.ttl, a.timeout, a.maxAge = m, c, ttl, min(timeout, maxAge), maxAge
	a.op.Keys, a.op.Kind, a.op.Sent = &c.keys, k, time.Now()
	if k != node.Release {
		a.op.TTL = m.ttlTextOf(ttl)
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

// emptyAttempt returns memory for an attempt of this kind.
func (c *Claim) emptyAttempt(k node.Kind) *Attempt {
	if c.memory != nil && k == node.Acquire {
		return &c.memory.acquire
	}
	if c.memory != nil && k == node.Release {
		return &c.memory.release
	}
	return new(Attempt)
}

// system returns the quorum system of the claim.
func (a *Attempt) system() *quorum.System { return &a.mux.systems[a.claim.quorums] }

// skipReason returns why it is of no use to send the attempt to a node now. It is nil if it is of
// use. claim.mu is held.
func (a *Attempt) skipReason(now time.Time) error {
	switch {
	case a.op.Kind == node.Release:
		return nil
	case now.Sub(a.op.Sent) > a.maxAge:
		return node.ErrQueuedTooLong
	case a.superseded():
		return node.ErrSuperseded
	}
	return nil
}

// superseded reports whether a newer attempt makes this one pointless. claim.mu is held.
func (a *Attempt) superseded() bool {
	newest := a.claim.latest
	return newest != a &&
		(a.op.Kind == node.Extend || newest != nil && newest.op.Kind == node.Release)
}

// pending returns the nodes that have not answered what the log has of the attempt. It counts what
// the others have granted. claim.mu is held.
func (a *Attempt) pending() quorum.Nodes {
	if a.round == nil {
		return 0
	}
	done := quorum.Nodes(a.round.State.done.Load())
	a.count()
	return a.asked &^ done
}

// asks reports whether the attempt is for node i.
func (a *Attempt) asks(i int) bool { return !a.op.Directed || a.asked.Has(i) }

// isOpen reports whether a slow node's vote could still change the attempt's result. That node has
// not read the attempt's round. ok are the nodes that have granted the round. A release that a
// quorum of them confirms is not open: often no caller waits for it, so decided is never set.
// isOpen does not need claim.mu.
func (a *Attempt) isOpen(ok quorum.Nodes) bool {
	confirmed := a.op.Kind == node.Release && a.system().IsQuorum(ok)
	return !confirmed && !a.decided.Load()
}

// count takes the grants of the nodes that are ok: see roundState. claim.mu is held.
func (a *Attempt) count() {
	if a.round == nil {
		return
	}
	granted := quorum.Nodes(a.round.State.ok.Load()) & a.asked & a.open()
	a.granted |= granted
	a.claim.doubt &^= granted
	if a.op.Kind == node.Release {
		a.claim.may &^= granted
	}
}

// voteUnknown counts open votes of these nodes as unknown, because the attempt is not sent there
// any more, or nobody waits longer. claim.mu is held.
func (a *Attempt) voteUnknown(nodes quorum.Nodes, err error) {
	a.count()
	for s := nodes & a.open(); s != 0; s &= s - 1 {
		a.addVote(s.Lowest(), node.Answer{Err: err})
	}
	a.tryDecide() // the last vote may have come just now
}

// addVote takes one vote. After the decision a vote changes nothing of it, but makes the error more
// complete. A release may still win when nodes that could not be reached answer later. claim.mu is
// held.
func (a *Attempt) addVote(i int, r node.Answer) {
	bit := quorum.Node(i)
	a.unknown &^= bit
	switch r.Vote {
	case node.Granted:
		a.granted |= bit
	case node.Refused:
		a.refused |= bit
	default:
		a.unknown |= bit
	}
	if a.decision == quorum.Won {
		return
	}
	if r.Vote == node.Unknown || a.op.Kind != node.Release && r.Vote == node.Refused {
		n := a.detail(i)
		n.keyIndex, n.err = r.KeyIndex, r.Err
	}
	a.tryDecide()
	if a.op.Kind == node.Acquire && a.decision > quorum.Won {
		a.countSplit()
	}
}

// countSplit counts a split vote, once, as soon as the votes of an acquire that failed show it.
// claim.mu is held.
func (a *Attempt) countSplit() {
	if a.splitCounted || a.granted == 0 || a.refused == 0 ||
		!a.system().IsQuorum(a.granted|a.refused) {
		return
	}
	a.splitCounted = true
	a.mux.splitVotes.Add(1)
}

// refusal returns what the refusal of an acquire by node i says: see quorum.Aliases. claim.mu is
// held.
func (a *Attempt) refusal(i int, r node.Answer) node.Answer {
	others := a.mux.aliases.Names().Others(i) & a.system().Nodes()
	if others != 0 {
		others &= a.mux.nodesWhere(func(s link.State) bool { return !s.Rejects() })
	}
	for s := others; s != 0; s &= s - 1 {
		if same := new(quorum.SameServerError); !errors.As(a.detail(s.Lowest()).err, &same) {
			r.Vote, r.Err = node.Unknown, a.sameServer(others)
			break
		}
	}
	return r
}

// sameServer returns why a node has no vote whose server has these other names.
func (a *Attempt) sameServer(others quorum.Nodes) error {
	l := a.mux.nodes[others.Lowest()].Link
	return &quorum.SameServerError{Other: l.Name(), Slot: l.Tag() != ""}
}

// detail returns the detail of one node's vote. claim.mu is held.
func (a *Attempt) detail(i int) *voteDetail {
	if a.details == nil {
		a.details = make([]voteDetail, len(a.mux.nodes))
	}
	return &a.details[i]
}

// tryDecide decides if the votes allow it. claim.mu is held.
func (a *Attempt) tryDecide() {
	a.count()
	if a.decision == quorum.Won || a.decision != quorum.Undecided && a.op.Kind != node.Release {
		return
	}
	d := a.decideWith(a.unknown)
	if d == quorum.Undecided {
		return
	}
	a.decision = d
	a.decided.Store(true)
	if c := a.claim; a.op.Kind == node.Extend && c.lost != 0 &&
		a.system().BlocksOtherQuorum(a.granted&^c.lost) {
		c.lost = 0
	}
}

// decideWith returns the decision if these nodes' votes are unknown. claim.mu is held.
func (a *Attempt) decideWith(unknown quorum.Nodes) quorum.Decision {
	q := a.system()
	switch a.op.Kind {
	case node.Release:
		if a.keeps() {
			return a.ifAllSay(q.Acquire(a.granted, a.refused|a.neverHeld, unknown), unknown)
		}
		names, free := a.mux.aliases.Names(), a.neverHeld|a.granted|a.refused
		not, noAnswer := names.Unconfirmed(q.Nodes(), free, unknown)
		return q.Release(a.neverHeld&^not, a.granted&^not, a.refused&^not, unknown|noAnswer)
	case node.Extend:
		return q.Extension(a.granted, a.refused, a.claim.lost, unknown)
	}
	d := q.Acquire(a.granted, a.refused, unknown)
	if d == quorum.Held && a.claim.Adopts() {
		return a.ifAllSay(d, unknown) // a node may show the mark
	}
	return d
}

// open returns the nodes whose votes are open. claim.mu is held.
func (a *Attempt) open() quorum.Nodes {
	return a.system().Nodes() &^ (a.granted | a.refused | a.unknown | a.neverHeld)
}

// countTimeouts counts a timeout for each node that has not answered. claim.mu is held.
func (a *Attempt) countTimeouts() {
	for s := a.open(); s != 0; s &= s - 1 {
		a.mux.nodes[s.Lowest()].Counts.Failures[stats.FailedTimeout].Add(1)
	}
}

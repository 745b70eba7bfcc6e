package multiplex

import (
	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// read is one trip of a node through the log.
func (m *Mux) read(t *batch.Trip[Attempt, roundState]) {
	i, n := t.Reader, m.nodes[t.Reader]
	f := n.NewFlush(t, t.Behind)
	for _, r := range t.Rounds {
		f.AddRound(&r.State.commands, len(r.Ops()))
		for _, a := range r.Ops() {
			f.Add((*operation)(a), a.asks(r, i))
		}
	}
	n.Send(f)
	at := 0
	for _, r := range t.Rounds {
		left := r.State.isLeft()
		for _, a := range r.Ops() {
			if v := &f.Answers[at]; !v.NotAsked &&
				(a.recorded || v.Vote != node.Granted || !f.Counts || left) {
				m.record(a, i, *v)
				r.State.recorded.Store(true)
			}
			at++
		}
		switch {
		case left:
		case f.Counts:
			m.finish(r, i, &r.State.answered, nil)
		default:
			m.finish(r, i, &r.State.failed, nil)
		}
	}
	n.Recycle(f)
}

// missed takes rounds that node i does not get: it is down, hangs, or is too far behind. It returns
// the releases that the node is to read when it answers again. If it may not, they are kept for the
// connector.
func (m *Mux) missed(i int, rounds []*batch.Round[Attempt, roundState], keep bool) (
	left []*Attempt,
) {
	n := m.nodes[i]
	why, down := n.Link.Rejects()
	reason := stats.FailedDown
	switch {
	case !down:
		why, reason = &holders.TimeoutError{Timeout: m.cfg.NodeTimeout}, stats.FailedQueuedTooLong
	case n.Link.State() == NodeQuarantined:
		reason = stats.FailedQuarantined
	}
	for _, r := range rounds {
		asked := 0
		for _, a := range r.Ops() {
			if !a.asks(r, i) {
				continue
			}
			asked++
			if a.op.Kind != node.Release && !a.recorded {
				continue
			}
			unread := m.recordMissed(a, i, why)
			switch {
			case unread && keep:
				left = append(left, a)
			case unread:
				n.AddPending((*operation)(a))
			}
		}
		if !r.State.isLeft() {
			n.Counts.CountFailure(reason, asked)
			m.finish(r, i, &r.State.missed, why)
		}
	}
	return left
}

package multiplex

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/lockpipe/lockpipe/script"
)

var (
	// errMoved is the vote of a node whose server may have granted the extension already, as
	// another node.
	errMoved = errors.New("not sent: the node's server changed since the extension began")
	// errConnectionLost is the vote of a node whose connection ended before the answer, if nothing
	// else is known.
	errConnectionLost = errors.New("the connection was lost before the answer")
)

// flush is one trip to a node, with its memory, which later ones use again.
type flush struct {
	node     *node
	rounds   *batch.Trip[Attempt, roundState] // nil: it comes from outside of the log
	attempts []*Attempt
	answers  []answer // of the node to each of them
	// counts: all that was sent was answered, on a connection that counted until then.
	counts bool

	own      encoding // what this node alone is sent
	again    encoding // what is sent once more
	sending  []part
	conn     *link.Conn      // for which the commands are made; nil: none
	set      link.CommandSet // of conn, as it was then
	retry    []command       // that were not executed for a reason that a retry removes
	alone    []int           // attempts whose newer command has done nothing
	lastTry  bool
	loadErr  error // why a script could not be loaded
	refusals []script.Refusal
	replied  int // how many commands
	trip     trip.Trip
	ended    chan trip.End // of capacity 1
	place    placeInLine
}

// part is a part of what is sent.
type part struct {
	*encoding
	offset int // of its attempts among those of the flush
}

func (n *node) newFlush() *flush {
	f, _ := n.mux.flushes.Get().(*flush)
	if f == nil {
		f = &flush{ended: make(chan trip.End, 1)}
		f.place.turn = make(chan struct{}, 1)
		f.trip.Receiver = f
	}
	f.node = n
	f.own.reset()
	f.again.reset()
	return f
}

// recycleFlush takes the memory of a flush whose answers were handled.
func (n *node) recycleFlush(f *flush) {
	n.leaveLine(f)
	clear(f.attempts)
	clear(f.answers)
	clear(f.retry)
	clear(f.sending)
	clear(f.trip.Parts)
	f.attempts, f.answers, f.retry = f.attempts[:0], f.answers[:0], f.retry[:0]
	f.sending, f.alone = f.sending[:0], f.alone[:0]
	f.rounds, f.conn, f.set, f.loadErr, f.lastTry, f.counts = nil, nil, 0, nil, false, false
	n.mux.flushes.Put(f)
}

// read is one trip of the node through the log.
func (n *node) read(t *batch.Trip[Attempt, roundState]) {
	f := n.newFlush()
	f.rounds = t
	for _, r := range t.Rounds {
		for _, a := range r.Ops() {
			f.attempts = append(f.attempts, a)
			f.answers = append(f.answers, answer{notAsked: !a.asks(r, n.index)})
		}
	}
	n.flush(f)
	at := 0
	for _, r := range t.Rounds {
		left := r.State.isLeft()
		for _, a := range r.Ops() {
			if v := &f.answers[at]; !v.notAsked &&
				(a.recorded || v.vote != granted || !f.counts || left) {
				n.mux.record(a, n.index, *v)
				r.State.recorded.Store(true)
			}
			at++
		}
		switch {
		case left:
		case f.counts:
			n.mux.finish(r, n.index, &r.State.answered, nil)
		default:
			n.mux.finish(r, n.index, &r.State.failed, nil)
		}
	}
	n.recycleFlush(f)
}

// missed takes rounds that the node does not get: it is down, hangs, or is too far behind. It
// returns the releases that the node is to read when it answers again. If it may not, they are kept
// for the connector.
func (n *node) missed(rounds []*batch.Round[Attempt, roundState], keep bool) (left []*Attempt) {
	why, down := n.link.Rejects()
	if !down {
		why = &timeoutError{n.mux.cfg.NodeTimeout}
	}
	for _, r := range rounds {
		asked := 0
		for _, a := range r.Ops() {
			if !a.asks(r, n.index) {
				continue
			}
			asked++
			if a.kind != release && !a.recorded {
				continue
			}
			unread := n.mux.recordMissed(a, n.index, why)
			switch {
			case unread && keep:
				left = append(left, a)
			case unread:
				n.addPending(a)
			}
		}
		if !r.State.isLeft() {
			n.countMissed(down, asked)
			n.mux.finish(r, n.index, &r.State.missed, why)
		}
	}
	return left
}

// flush makes one trip to the node.
func (n *node) flush(f *flush) {
	asked := 0
	for i := range f.answers {
		if !f.answers[i].notAsked {
			asked++
		}
	}
	sent := n.metrics.flushStarted(asked)
	slot := n.responsiveness.flushSent()
	n.sendFlush(f)
	n.responsiveness.flushAnswered(slot)
	took := time.Since(sent)
	n.metrics.flushLatency.Observe(took)
	if slices.ContainsFunc(f.answers, func(r answer) bool { return r.replied }) {
		// Otherwise it may not have been sent.
		n.rtt.observe(took)
	}
	n.metrics.countFailures(f.answers)
	n.noteAcquireErrors(f.attempts, f.answers)
}

// sendAttempts is the flush of a node over its link.
func (n *node) sendAttempts(f *flush) {
	// It is held until the trip is behind all that was sent before. What a claim asks for later
	// comes later.
	n.order.Lock()
	n.joinLine(f)
	conn := n.link.Verified()
	f.build(conn)
	f.counts = n.exchange(f, conn)
	if len(f.retry)+len(f.alone) > 0 {
		n.order.Lock()
		f.buildRetry()
		f.counts = n.exchange(f, conn) && f.counts
	}
	f.awaitTurn()
	if n.link.StillValid(conn) {
		dropIfUseless(conn, f.answers)
	} else {
		f.counts = false
		invalidate(f.answers)
	}
	explainUnanswered(cmp.Or(conn, n.link.Current()), f.answers)
}

// invalidate makes unknowns of the replies. The server may have forgotten what it has done, and may
// have replied about keys that it had forgotten.
func invalidate(answers []answer) {
	for i := range answers {
		if answers[i].replied {
			answers[i] = answer{broken: true, err: link.ErrDataLoss}
		}
	}
}

// build makes commands of the attempts that are not among the shared ones, and answers those that
// are not to be sent on the connection. node.order is held.
func (f *flush) build(conn *link.Conn) {
	now := time.Now()
	f.conn, f.set = conn, conn.Commands()
	shared := f.canShare(conn, now)
	if shared {
		at := 0
		for _, r := range f.rounds.Rounds {
			f.sending = append(f.sending, part{r.State.shared[f.set], at})
			at += len(r.Ops())
		}
	}
	for at, a := range f.attempts {
		if f.answers[at].notAsked {
			continue
		}
		// A grant, until one of the commands that carry it says otherwise.
		f.answers[at] = answer{vote: granted, replied: true, keyIndex: -1}
		if shared && !a.directed() {
			continue
		}
		why := a.skip(f.node.index, now)
		if why == nil && a.kind == extend && conn.MayRepeat(a.sent) {
			why = errMoved
		}
		if why != nil {
			f.answers[at] = answer{leftNothing: true, err: why}
			continue
		}
		f.own.add(at, a)
	}
	f.own.end()
	f.sending = append(f.sending, part{&f.own, 0})
}

// canShare reports whether the node is sent what is made once for all nodes. Otherwise it is worth,
// or necessary, to look at each attempt. node.order is held.
func (f *flush) canShare(conn *link.Conn, now time.Time) bool {
	// If the node missed a round since the trip took its own, the trip may have an acquire whose
	// release was kept and sent already.
	if f.rounds == nil || f.rounds.Behind || f.rounds.HasMissed() {
		return false
	}
	for _, r := range f.rounds.Rounds {
		s := &r.State
		if s.isLeft() || !s.sendBefore.IsZero() && now.After(s.sendBefore) ||
			s.shared[f.set] == nil || conn.MayRepeat(s.oldest) {
			return false
		}
	}
	return true
}

// skip returns why the attempt is not sent to node i any more; nil if it is.
func (a *Attempt) skip(i int, now time.Time) error {
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	if a.kind == release && !a.claim.mayHold().has(i) {
		return errNotNeeded
	}
	return a.skipReason(now)
}

// buildRetry makes commands of what is sent once more: the missing scripts, and the calls that are
// still of use. node.order is held.
func (f *flush) buildRetry() {
	f.lastTry = true
	now := time.Now()
	for _, at := range f.alone {
		if why := f.attempts[at].skip(f.node.index, now); why != nil {
			f.answers[at] = answer{leftNothing: true, err: why}
		} else {
			f.again.add(at, f.attempts[at])
		}
	}
	for _, s := range script.All() {
		if f.again.calls(s) ||
			slices.ContainsFunc(f.retry, func(p command) bool { return p.script == s }) {
			f.again.addLoad(s)
		}
	}
	for _, p := range f.retry {
		why := func(at int) error { return f.attempts[p.index+at].skip(f.node.index, now) }
		if !slices.ContainsFunc(p.call.Owners, func(at int) bool { return why(at) != nil }) {
			f.again.addCall(p.script, p.call, p.index)
			continue
		}
		calls := p.call.Split()
		for i := range calls {
			alone := &calls[i]
			if err := why(alone.Owners[0]); err != nil {
				f.fail(&command{script: p.script, call: alone}, p.index,
					answer{leftNothing: true, err: err})
			} else {
				f.again.addCall(p.script, alone, p.index)
			}
		}
	}
	f.again.end()
	f.sending = append(f.sending[:0], part{&f.again, 0})
}

// exchange sends the commands and reads their replies. It reports whether all were answered.
// node.order is held, and released when the trip is behind all that was sent before. Whoever writes
// next on the connection may send it then.
func (n *node) exchange(f *flush, conn *link.Conn) (answered bool) {
	f.trip.Parts, f.trip.Commands, f.replied = f.trip.Parts[:0], 0, 0
	for _, p := range f.sending {
		if len(p.commands) > 0 {
			f.trip.Parts = append(f.trip.Parts, p.bytes)
			f.trip.Commands += len(p.commands)
		}
	}
	if f.trip.Commands == 0 {
		n.order.Unlock()
		return true
	}
	queued := conn != nil && conn.Trips.Enqueue(&f.trip) == nil
	n.order.Unlock()
	if f.rounds != nil && !f.lastTry {
		f.rounds.Sent()
	}
	if !queued {
		f.failFrom(0, answer{leftNothing: true, err: link.ErrNotConnected})
		return false
	}
	conn.Trips.Flush()
	switch <-f.ended {
	case trip.Unsent:
		f.failFrom(0, answer{leftNothing: true, err: n.lossOf(conn, link.ErrNotConnected)})
		return false
	case trip.Broken:
		f.failFrom(f.replied, answer{broken: true, err: n.lossOf(conn, errConnectionLost)})
		return false
	}
	return true
}

// lossOf returns why the connection failed. It returns otherwise if the client itself closed it.
func (n *node) lossOf(conn *link.Conn, otherwise error) error {
	if err := conn.Failure(); err != nil {
		return n.link.Hide(err)
	}
	return otherwise
}

// OnEnd takes the end of the trip.
func (f *flush) OnEnd(end trip.End) { f.ended <- end }

// command returns the command with this index in the trip, and the offset of its attempts.
func (f *flush) command(i int) (p *command, offset int) {
	for _, part := range f.sending {
		if i >= len(part.commands) {
			i -= len(part.commands)
			continue
		}
		p, offset = &part.commands[i], part.offset
		if p.call != nil {
			offset += p.index
		}
		return p, offset
	}
	return nil, 0
}

// failFrom gives the attempts of all commands from this one on the same answer.
func (f *flush) failFrom(first int, r answer) {
	for i := first; i < f.trip.Commands; i++ {
		p, offset := f.command(i)
		f.fail(p, offset, r)
	}
}

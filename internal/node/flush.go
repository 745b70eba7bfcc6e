package node

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/lockpipe/lockpipe/script"
)

// Reading is the trip through the owner's log that a flush is for.
type Reading interface {
	// MustLook reports whether some operations may be over: see batch.Trip.MustLook.
	MustLook() bool
}

// Flush is one trip to a node, with its memory, which later ones use again.
type Flush struct {
	// Reading is nil if the flush comes from outside of the log.
	Reading Reading
	Ops     []Operation
	Answers []Answer // of the node to each of them
	// Counts reports whether the node answered every command, and the connection was still valid
	// then. Only such a flush votes.
	Counts bool

	node     *Node
	rounds   []*Round
	made     []*Encoding // for this node alone
	sending  []part
	conn     *link.Conn      // the commands are made for it; nil: none
	set      link.CommandSet // of conn when the commands were made
	again    []int           // operations whose command did nothing, and worth a second try
	tooLow   []single        // acquires whose fences were too low
	lastTry  bool
	loadErr  error  // why a script could not be loaded
	replied  int    // how many commands the node has answered
	reads    bool   // the last command reads the guard's key
	bytes    []byte // of the trip
	trip     trip.Trip
	isOver   bool          // all answers are there; guarded by Node.mu
	recorded chan struct{} // closed when the answers were recorded; nil for a trip through the log
}

// part is a part of what is sent.
type part struct {
	*Encoding
	offset int // of its operations among those of the flush
}

// NewFlush returns a flush to add operations to. It comes from outside of the log if reading is
// nil.
func (n *Node) NewFlush(reading Reading) *Flush {
	f, _ := n.group.flushes.Get().(*Flush)
	if f == nil {
		f = new(Flush)
		f.trip.Receiver = f
	}
	f.node, f.Reading = n, reading
	return f
}

// newEncoding returns an Encoding for what is made for this node alone.
func (f *Flush) newEncoding() *Encoding {
	e := f.node.group.newEncoding(f.set&link.Tagged, f.lastTry)
	f.made = append(f.made, e)
	return e
}

// Add adds an operation. asked: it is for the node.
func (f *Flush) Add(o Operation, asked bool) {
	f.Ops = append(f.Ops, o)
	f.Answers = append(f.Answers, Answer{NotAsked: !asked})
}

// AddRound says that the next operations are those of a round.
func (f *Flush) AddRound(r *Round) { f.rounds = append(f.rounds, r) }

// recycle takes the memory of a flush whose answers were handled.
func (n *Node) recycle(f *Flush) {
	for _, e := range f.made {
		n.group.encodings.Put(e)
	}
	clear(f.made)
	clear(f.Ops)
	clear(f.Answers)
	clear(f.rounds)
	clear(f.tooLow)
	clear(f.sending)
	*f = Flush{
		Ops: f.Ops[:0], Answers: f.Answers[:0], rounds: f.rounds[:0], made: f.made[:0],
		sending: f.sending[:0], again: f.again[:0], tooLow: f.tooLow[:0],
		bytes: f.bytes, trip: trip.Trip{Receiver: f},
	}
	n.group.flushes.Put(f)
}

// Send makes one trip to the node for the log, and counts it. It returns when the trip is sent.
// Config.TakeAnswers is called when it is over, maybe sooner. The flush is the node's from now on.
func (n *Node) Send(f *Flush) {
	asked := 0
	for i := range f.Answers {
		if !f.Answers[i].NotAsked {
			asked++
		}
	}
	n.noteSent(n.Counts.FlushStarted(asked))
	n.SendFlush(f)
}

// sendOperations sends the flush of a node over its link.
func (n *Node) sendOperations(f *Flush) {
	// It is held until the trip is behind all that was sent before. What a claim asks for later
	// comes later.
	n.order.Lock()
	n.joinLine(f)
	f.build(n.Link.Verified())
	n.exchange(f)
}

// SendTo is sendOperations for tests, without a server. send is called behind the flushes before
// this one. It lets done be called once Answers has what the server would answer.
func (f *Flush) SendTo(send func(done func())) {
	f.node.order.Lock()
	defer f.node.order.Unlock()
	f.node.joinLine(f)
	f.build(nil)
	send(func() { f.node.answered(f) })
}

// sendAgain sends what is worth a second try.
func (n *Node) sendAgain(f *Flush) {
	n.order.Lock()
	f.buildRetry()
	n.exchange(f)
}

// end takes the end of a trip: all operations have their answers, or some are sent once more. The
// reader of the connection may call it, so it does not block, and a second try has a goroutine.
func (f *Flush) end() {
	n := f.node
	if !f.lastTry && len(f.again)+len(f.tooLow) > 0 {
		go n.sendAgain(f)
		return
	}
	if n.Link.StillValid(f.conn) {
		dropIfUseless(f.conn, f.Answers)
	} else {
		f.Counts = false
		invalidate(f.Answers, cmp.Or(f.conn.DropCause(), link.ErrDataLoss))
	}
	n.answered(f)
}

// invalidate makes unknowns of the replies. The server may have forgotten what it has done, and may
// have replied about keys that it had forgotten.
func invalidate(answers []Answer, why error) {
	for i := range answers {
		if answers[i].Replied {
			answers[i] = Answer{Broken: true, Err: why}
		}
	}
}

// build makes commands of the operations that are not among the shared ones, and answers those that
// are not to be sent on the connection. Node.order is held.
func (f *Flush) build(conn *link.Conn) {
	now := time.Now()
	f.conn, f.set, f.Counts = conn, conn.Commands(), true
	if !f.canShare(now) {
		f.addOwn(0, len(f.Ops), false, now)
		return
	}
	at := 0
	for _, r := range f.rounds {
		f.addOwn(at, at+r.Size, true, now)
		f.sending = append(f.sending, part{r.Shared[f.set], at})
		at += r.Size
	}
}

// addOwn adds the operations from this index to before that one that are not among the shared ones.
// Beside a shared round, these are its directed ones. They go out before the shared commands of the
// round, which may want the keys that they release. They stay behind the rounds before, which may
// have the acquires of their claims. What acquires and extends a key is always directed, or never:
// that depends on the key's quorum system.
func (f *Flush) addOwn(from, to int, shares bool, now time.Time) {
	var e *Encoding
	for at := from; at < to; at++ {
		o := f.Ops[at].Op()
		if !f.assumeGranted(at) || shares && !o.Directed || !f.isOfUse(at, now) {
			continue
		}
		if e == nil {
			e = f.newEncoding()
		}
		e.add(at, o)
	}
	if e != nil {
		e.end()
		f.sending = append(f.sending, part{e, 0})
	}
}

// assumeGranted makes the answer to an operation a grant, until one of the commands that carry it
// says otherwise. It returns false if the node is not asked.
func (f *Flush) assumeGranted(at int) (asked bool) {
	if asked = !f.Answers[at].NotAsked; asked {
		f.Answers[at] = Answer{Vote: Granted, Replied: true, KeyIndex: -1}
	}
	return asked
}

// isOfUse reports whether an operation is still to be sent. Otherwise its answer says why not.
func (f *Flush) isOfUse(at int, now time.Time) bool {
	why := f.Ops[at].Skip(f.node.index, f.lastTry, now)
	switch {
	case why != nil && f.lastTry: // other calls of a large set may have taken parts
		f.failOne(at, Answer{LeftNothing: true, Err: why})
	case why != nil:
		f.Answers[at] = Answer{LeftNothing: true, Err: why}
	}
	return why == nil
}

// canShare reports whether the node is sent what is made once for all nodes. Otherwise it is worth,
// or necessary, to look at each operation. Node.order is held.
func (f *Flush) canShare(now time.Time) bool {
	// The trip may have an acquire whose release was kept and sent already.
	if f.Reading == nil || f.Reading.MustLook() {
		return false
	}
	for _, r := range f.rounds {
		if !r.SendBefore.IsZero() && now.After(r.SendBefore) || r.Shared[f.set] == nil {
			return false
		}
	}
	return true
}

// errPartDone is why a large set is in doubt.
var errPartDone = errors.New("the server had the script for some of the keys only")

// buildRetry makes commands of what is sent once more: the operations that are still of use, each
// in commands of its own, behind their scripts, which the server may lack. Node.order is held.
func (f *Flush) buildRetry() {
	f.lastTry = true
	now, e := time.Now(), f.newEncoding()
	slices.Sort(f.again)
	for rest := f.again; len(rest) > 0; {
		at, calls := rest[0], 1
		for calls < len(rest) && rest[calls] == at {
			calls++
		}
		rest = rest[calls:]
		switch o := f.Ops[at].Op(); {
		case calls < o.calls(): // what was done is not done again: an acquire would refuse itself
			f.failOne(at, Answer{Replied: true, Err: errPartDone})
		case f.isOfUse(at, now):
			e.add(at, o)
		}
	}
	for i, s := range planned {
		if len(e.plans[i].Calls()) > 0 {
			e.addLoad(s)
		}
	}
	if len(f.tooLow) > 0 {
		e.addLoad(script.Fences)
		e.addFence(look, f.tooLow)
	}
	e.end()
	f.sending = append(f.sending[:0], part{e, 0})
}

// exchange sends the commands. OnReply has the replies, and OnEnd the end. Node.order is held, and
// released when the trip is behind all that was sent before. Whoever writes next on the connection
// may send it then, and from then on the flush may be over.
func (n *Node) exchange(f *Flush) {
	conn := f.conn
	f.bytes, f.trip.Commands, f.replied = f.bytes[:0], 0, 0
	for _, p := range f.sending {
		f.bytes = p.appendTo(f.bytes, n.index, n.tag)
		f.trip.Commands += len(p.commands)
	}
	if f.trip.Commands == 0 {
		n.order.Unlock()
		f.end()
		return
	}
	if f.reads = conn != nil && conn.ReadBehind != nil; f.reads {
		f.bytes, f.trip.Commands = append(f.bytes, conn.ReadBehind...), f.trip.Commands+1
	}
	f.trip.Bytes = f.bytes
	queued := conn != nil && conn.Trips.Enqueue(&f.trip) == nil
	n.order.Unlock()
	if !queued {
		why := cmp.Or(cmp.Or(conn, n.Link.Current()).DropCause(), link.ErrNotConnected)
		f.failFrom(0, Answer{LeftNothing: true, Err: why})
		f.end()
		return
	}
	conn.Trips.Flush()
}

// OnEnd takes the end of the trip.
func (f *Flush) OnEnd(end trip.End) {
	switch end {
	case trip.Unsent:
		err := f.node.lossOf(f.conn, link.ErrNotConnected)
		f.failFrom(0, Answer{LeftNothing: true, Err: err})
	case trip.Broken:
		f.failFrom(f.replied, Answer{Broken: true, Err: f.node.lossOf(f.conn, ErrConnectionLost)})
	}
	f.end()
}

// lossOf returns why the connection was dropped, or has failed. It returns otherwise if the client
// itself closed it.
func (n *Node) lossOf(conn *link.Conn, otherwise error) error {
	if err := conn.Failure(); err != nil {
		return n.Link.Hide(err)
	}
	return otherwise
}

// command returns the command with this index in the trip, and the offset of its operations; nil
// for the one that reads the guard's key.
func (f *Flush) command(i int) (p *command, offset int) {
	for _, part := range f.sending {
		if i >= len(part.commands) {
			i -= len(part.commands)
			continue
		}
		return &part.commands[i], part.offset
	}
	return nil, 0
}

// failFrom gives the operations of all commands from this one on the same answer.
func (f *Flush) failFrom(first int, r Answer) {
	f.Counts = false
	for i := first; i < f.trip.Commands; i++ {
		if p, offset := f.command(i); p != nil {
			f.fail(p, offset, r)
		}
	}
}

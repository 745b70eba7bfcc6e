// Package batch groups the operations of concurrent callers into rounds, and has one or more
// readers read them in order: group commit without a timer. It knows neither Redis nor locks nor
// time.
package batch

import (
	"errors"
	"slices"
	"sync"
)

// ErrOverloaded reports that too many operations wait. The operation was not taken and will not be
// sent.
var ErrOverloaded = errors.New("lockpipe: too many operations are waiting")

// ErrClosed reports that the log was closed. The operation was not taken and will not be sent.
var ErrClosed = errors.New("batch: log is closed")

// Config says what a Log does with its operations. What has no other default is required.
type Config[Op, State any] struct {
	// Readers is how many readers the log has, 1 to 64.
	Readers int
	// Quorum is how many readers must be ready before a round is sealed. If fewer read at all,
	// these are enough.
	Quorum int
	// Weight is how heavy an operation is for the other side, at least 1.
	Weight func(op *Op) int
	// FollowUp reports whether an operation changes or undoes one that was taken before. The number
	// of those bounds that of follow-ups. So a follow-up is always taken: also beyond the Limit,
	// and after Close. nil: none is.
	FollowUp func(op *Op) bool
	// Open prepares the State of a new round. Emptied ends a round all of whose operations were
	// cancelled: it is never sealed. The log is locked meanwhile. nil: nothing to do.
	Open, Emptied func(r *Round[Op, State])
	// Seal is called once for each sealed round, before a reader has it. nil: nothing to do.
	Seal func(r *Round[Op, State])
	// Read begins one trip with all operations of t.Rounds, and returns when they are sent. So what
	// the next trip of the reader sends comes behind. Trip.End must follow, however the trip ends.
	Read func(t *Trip[Op, State])
	// Missed takes rounds that a reader does not get any more: it is Out, it hangs, or it is too
	// far behind. It must not block. Several calls may run at the same time, in any order. nil if
	// there is only one reader, which is never Out and misses nothing.
	Missed func(reader int, rounds []*Round[Op, State])
	// MaxWeight is the greatest weight of one round and of one trip. A single operation may be
	// heavier.
	MaxWeight int
	// Window is the most trips of a reader that are under way at the same time.
	Window int
	// OverlapAt returns the weight that must wait for a reader, in unread and open rounds, before a
	// second trip starts while one is under way. A third one needs twice that weight, a fourth one
	// four times, so that a crowd does not fill the window with small trips. None starts while
	// those under way weigh Window times MaxWeight or more. It is called with the log locked, and
	// must not block. nil if Window is 1.
	OverlapAt func(reader int) int
	// Limit is the most operations in open rounds, not counting follow-ups. More get ErrOverloaded.
	// It is also the most weight of unread rounds of one reader. If there is more, the reader
	// misses them.
	Limit int
}

// Log carries operations in rounds to its readers. An operation that finds enough readers ready
// leaves at once. Operations that come while the readers are busy wait, and leave together in the
// next round. So an idle log adds no delay, a busy one fills its rounds, and no time has to be
// tuned.
//
// Invariants:
//
//  1. Every operation that Append took is either cancelled while its round is open, or is in one
//     sealed round. For each reader that gets the round, exactly one call of Read or Missed has it.
//  2. Each reader reads its rounds in the order of the log. A trip takes the rounds that come next.
//     The next trip starts only after Read has returned for the one before. What a reader misses
//     may be newer than rounds that it is still to read: their trip knows (Trip.MustLook).
//  3. The first open round does not wait while a quorum of its readers is ready. No wake-up is
//     lost, because each change of "who is ready" or "what waits" ends with advance, under the same
//     lock. Readers that hang do not count.
//  4. A reader has at most Window trips under way. One goroutine, its writer, sends them one after
//     the other. One more goroutine, the sealer, seals. They sleep when they have nothing to do,
//     and end then after Close.
//
// Outline: Append puts an operation into the last open round, and may wake the sealer. That lets
// the callers that were just woken append too, takes the first open round, and gives it to the
// readers. The writer of each takes its unread rounds, calls Read, and starts over until none is
// left.
//
// Rejected:
//
//   - A log for each reader: each operation was queued, encoded and counted once for each of them.
//   - A timer that waits for more operations. It delays the idle case. Under load it is worse than
//     none, because the trip under way is the better clock.
//   - A channel of operations: a lock and a wake-up for each operation, not for each round.
//   - A goroutine for each trip, which also waits for its end: one more change of goroutines for
//     each trip, before the callers wake.
//   - Operations that are put together before they are appended, so that few rounds have them: the
//     first of them leaves alone, and the next round has the rest.
//
// All methods are safe for concurrent use.
type Log[Op, State any] struct {
	cfg Config[Op, State]

	mu      sync.Mutex          // guards all below, and open rounds
	open    []*Round[Op, State] // not sealed, and not empty
	limited int                 // how many of their operations count towards Limit
	sealer  worker              // takes the first open round
	usual   int                 // how many operations the last round had
	sealed  uint64              // how many rounds were sealed
	readers []reader[Op, State] // by index
	missing int                 // calls of Missed under way
	closed  bool                // Append refuses
	spare   []*Trip[Op, State]  // memory for trips
	idle    chan struct{}       // closed when nothing is left after Close; nil before Close
}

// New returns a log without goroutines: the first operation starts some, and Close ends those that
// sleep. All its readers are Reading.
func New[Op, State any](cfg Config[Op, State]) *Log[Op, State] {
	l := &Log[Op, State]{cfg: cfg, readers: make([]reader[Op, State], cfg.Readers)}
	l.sealer.step = l.seal
	for i := range l.readers {
		l.readers[i].writer.step = func() bool { return l.send(i) }
	}
	return l
}

// All stands for all readers.
const All = ^uint64(0)

// Append takes an operation for the next round, and returns that. readers are those that it is for,
// as bits: a round goes to all readers that one of its operations is for. If Append returns
// ErrOverloaded or ErrClosed, the operation was not taken. Of the functions of Config, Append calls
// only Weight, FollowUp, Open and OverlapAt. So the caller may hold locks that the others need.
func (l *Log[Op, State]) Append(op *Op, readers uint64) (*Round[Op, State], error) {
	limited, weight := l.isLimited(op), l.cfg.Weight(op)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !limited:
	case l.closed:
		return nil, ErrClosed
	case l.limited >= l.cfg.Limit:
		return nil, ErrOverloaded
	}
	r := l.lastOpen(weight)
	r.ops = append(r.ops, op)
	r.readers |= readers
	l.count(r, 1, weight, limited)
	l.advance()
	return r, nil
}

// isLimited reports whether an operation counts towards Limit.
func (l *Log[Op, State]) isLimited(op *Op) bool {
	return l.cfg.FollowUp == nil || !l.cfg.FollowUp(op)
}

// count counts an operation of an open round, or with n = -1 stops counting it. mu is held.
func (l *Log[Op, State]) count(r *Round[Op, State], n, weight int, limited bool) {
	r.weight += weight
	if limited {
		r.limited += n
		l.limited += n
	}
}

// lastOpen returns the last open round if it takes an operation of this weight, and otherwise opens
// a round behind it. mu is held.
func (l *Log[Op, State]) lastOpen(weight int) *Round[Op, State] {
	if n := len(l.open); n > 0 && l.open[n-1].weight+weight <= l.cfg.MaxWeight {
		return l.open[n-1]
	}
	r := new(Round[Op, State])
	if r.ops = r.first[:0]; l.usual > 1 {
		r.ops = make([]*Op, 0, l.usual)
	}
	if l.cfg.Open != nil {
		l.cfg.Open(r)
	}
	l.open = append(l.open, r)
	return r
}

// Cancel stops an operation that Append has put into this round, if the round is still open. It
// returns true if the operation was stopped, now or by an earlier call: then no reader has it or
// will have it. It returns false once the round was sealed, even if an earlier call has stopped the
// operation. Of the functions of Config, Cancel calls only Weight, FollowUp, Emptied and OverlapAt.
func (l *Log[Op, State]) Cancel(r *Round[Op, State], op *Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.number != 0 {
		return false
	}
	if i := slices.Index(r.ops, op); i >= 0 {
		r.ops = slices.Delete(r.ops, i, i+1)
		l.count(r, -1, -l.cfg.Weight(op), l.isLimited(op))
		if len(r.ops) == 0 {
			l.open = slices.DeleteFunc(l.open, func(o *Round[Op, State]) bool { return o == r })
			if l.cfg.Emptied != nil {
				l.cfg.Emptied(r)
			}
		}
		l.advance() // what comes next may be for other readers
	}
	return true
}

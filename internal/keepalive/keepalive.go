// Package keepalive notices that a server has become silent.
package keepalive

import (
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
)

// KeepAlive watches a connection. If nothing comes on it for a time, it sends a PING. If nothing
// comes for another time, the server is silent: the owner is to give the connection up. Every byte
// that comes counts. A look that is late is repeated: this process was throttled or stopped, and
// may not have read what came. But if no trip is answered between MaxStuck looks although one is
// under way, the server is silent too: it may send a byte now and then. rueidis could do this, but
// it does not see the replies to trips. It would give up a connection on which replies come all the
// time, if its PING is behind many trips.
type KeepAlive struct {
	conn    *trip.Conn
	gap     time.Duration
	timeout time.Duration
	silent  func()
	probe   trip.Trip // a PING; owned by the goroutine that has set probing, from then until OnEnd

	mu       sync.Mutex // guards all below; a leaf
	timer    *time.Timer
	due      time.Time // when the timer fires
	seen     uint64    // conn.Reads when it was looked at last
	answered uint64    // the trips that were answered then
	stuck    int       // for so many looks no trip was answered, although one was under way
	probing  bool      // the probe is under way
	overdue  bool      // nothing came for gap
	finished bool      // the timer is not set any more
}

// MaxStuck is how many looks, each after gap, the oldest trip may be under way. It counts looks and
// not time: a process that was stopped looks once.
const MaxStuck = 8

// lateAfter is by how much a look may be late.
const lateAfter = 5 * time.Millisecond

var ping = resp.AppendCommand(nil, "PING")

// New watches a connection until Stop. After gap without a byte it sends a PING, and it calls
// silent once, when nothing has come for timeout more. silent may call Stop.
func New(conn *trip.Conn, gap, timeout time.Duration, silent func()) *KeepAlive {
	k := &KeepAlive{conn: conn, gap: gap, timeout: timeout, silent: silent}
	k.probe = trip.Trip{Bytes: ping, Commands: 1, Receiver: k}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer, k.due = time.AfterFunc(gap, k.look), time.Now().Add(gap)
	return k
}

// look runs when the timer fires.
func (k *KeepAlive) look() {
	send, giveUp := k.next()
	if giveUp {
		k.silent()
		return
	}
	if send && k.conn.Enqueue(&k.probe) == nil {
		// If the server takes nothing, this blocks. The timer fires meanwhile.
		k.conn.Flush()
	}
}

// next decides what to do now, and sets the timer. send: the probe is to be sent. giveUp: it is not
// answered in time.
func (k *KeepAlive) next() (send, giveUp bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.finished {
		return false, false
	}
	reads := k.conn.Reads()
	silent := reads == k.seen
	k.seen = reads
	answered, underWay := k.conn.Progress()
	if k.stuck++; !underWay || answered != k.answered {
		k.stuck, k.answered = 0, answered
	}
	switch {
	case k.stuck >= MaxStuck:
		k.finished = true
		return false, true
	case !silent:
		k.overdue = false
		k.lookAfter(k.gap)
	case k.overdue && time.Since(k.due) >= lateAfter:
		k.lookAfter(k.gap)
	case k.overdue:
		k.finished = true
		return false, true
	default:
		k.overdue = true
		send, k.probing = !k.probing, true
		k.lookAfter(k.timeout)
	}
	return send, false
}

// OnReply takes the reply to the probe. Each is good: it came.
func (k *KeepAlive) OnReply(int, resp.Reply) {}

// OnEnd takes the end of the probe.
func (k *KeepAlive) OnEnd(end trip.End) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.probing = false
	if end == trip.Answered && !k.finished {
		k.seen, k.overdue = k.conn.Reads(), false
		k.lookAfter(k.gap)
	}
}

// lookAfter sets the timer. mu is held.
func (k *KeepAlive) lookAfter(d time.Duration) {
	k.due = time.Now().Add(d)
	k.timer.Reset(d)
}

// Stop ends it. k may be nil.
func (k *KeepAlive) Stop() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finished = true
	k.timer.Stop()
}

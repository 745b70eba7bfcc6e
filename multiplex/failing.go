package multiplex

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

const (
	// failingAfter is how long after a refused acquire the node is probed, if it has granted none.
	failingAfter = time.Second
	// probeEvery is how often the connector probes a failing node, at least.
	probeEvery = time.Second
)

// acquireErrors is since when a node has answered acquires with errors alone. The zero value: it
// has not. Extensions and releases show nothing: a server without memory still executes them.
//
// A node is failing when it has granted nothing for failingAfter, and refuses a probe too. The
// probe prevents that one caller whose keys are forbidden makes a node fail. A grant or an answered
// probe ends the state. A failing node is sent what it would be sent if it were up, and each of its
// votes counts as before: an error is an unknown vote, whatever the state is.
type acquireErrors struct {
	// When the first error since the last grant came, by responsiveness.now; 0: none.
	since   atomic.Int64
	last    atomic.Pointer[error] // not nil if since is not 0
	recheck chan struct{}         // of capacity 1: the connector is to review the node
}

// noteAcquireErrors takes the answers of a flush.
func (n *node) noteAcquireErrors(attempts []*Attempt, answers []answer) {
	var refusal error
	for i := range answers {
		switch {
		case attempts[i].kind != acquire || !answers[i].replied:
		case answers[i].vote == granted:
			if n.acquireErrors.since.Load() != 0 {
				n.acquireErrors.since.Store(0)
				if NodeState(n.state.Load()) == NodeFailing {
					notify(n.acquireErrors.recheck)
				}
			}
			return
		case answers[i].serverError():
			refusal = answers[i].err
		}
	}
	if refusal == nil {
		return
	}
	last := refusal // which is in memory of its own only if there was one
	n.acquireErrors.last.Store(&last)
	if n.acquireErrors.since.CompareAndSwap(0, n.responsiveness.now()) {
		notify(n.acquireErrors.recheck)
	}
}

// serverError reports whether the server answered with an error of its own.
func (r *answer) serverError() bool {
	if r.err == nil {
		return false // the usual case, without an allocation
	}
	var stale *fenceTooLowError
	return r.failureKind() == failedServer && !errors.As(r.err, &stale)
}

// review makes the node failing or up. It returns when it is to be called again; 0 if only a new
// error gives a reason. It runs on the connector, which alone changes the state.
func (n *node) review(ctx context.Context) (again time.Duration) {
	failing, since := NodeState(n.state.Load()) == NodeFailing, n.acquireErrors.since.Load()
	if since != 0 {
		left := failingAfter - time.Duration(n.responsiveness.now()-since)
		if left > 0 && !failing {
			return left
		}
		l := n.active.verified()
		if l == nil {
			return probeDelay()
		}
		refusal, answered := n.probe(ctx)
		switch {
		case !answered || !n.active.stillValid(l):
			// The connection is about to be lost, or the server is slow.
			return probeDelay()
		case refusal == nil:
			n.acquireErrors.since.Store(0)
		case isUseless(refusal):
			l.drop(refusal)
			return 0
		}
	}
	refused := n.acquireErrors.since.Load() != 0 // a grant may have come meanwhile
	switch {
	case refused && !failing:
		n.setState(NodeFailing, *n.acquireErrors.last.Load())
	case !refused && failing:
		n.setState(NodeUp, nil)
	}
	if refused {
		return probeDelay()
	}
	return 0
}

// probeDelay returns a random time, so that the clients of a node do not probe it all at once.
func probeDelay() time.Duration { return probeEvery/2 + mathrand.N(probeEvery/2) }

// probe takes a key that is no lock, as an acquire takes one, and deletes it. refusal is the error
// with which the server answered, without the password. It is nil if the server executed the
// acquire.
func (n *node) probe(ctx context.Context) (refusal error, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	key := n.ownProbeKey
	var commands []rueidis.Completed
	for {
		loads := len(commands)
		acquire := n.client.B().Arbitrary("EVALSHA", script.Acquire.SHA, "1").Keys(key).
			Args(strconv.Itoa(probeTTL), rand.Text()).Build()
		commands = append(commands, acquire, n.client.B().Del().Key(key).Build())
		reply := n.client.DoMulti(ctx, commands...)[loads]
		if reply.NonRedisError() != nil {
			return nil, false
		}
		err := reply.Error()
		if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() && loads == 0 {
			load := n.client.B().ScriptLoad().Script(script.Acquire.Source).Build()
			commands = []rueidis.Completed{load}
			continue
		}
		if err != nil {
			err = n.hide(errors.New(err.Error()))
		}
		return err, true
	}
}

// uselessErrors are the first words of errors after which a connection is of no use: its server is
// no master with data now. Behind the same address another server may be the master.
var uselessErrors = [...]string{"READONLY", "MASTERDOWN", "LOADING"}

// isUseless reports whether a server that answers this error is useless. Before Redis 7 an error
// inside a script has the original one in its text.
func isUseless(err error) bool {
	text := err.Error()
	for _, word := range uselessErrors {
		if text == word || strings.HasPrefix(text, word+" ") ||
			strings.Contains(text, ": -"+word+" ") {
			return true
		}
	}
	return false
}

// dropIfUseless drops the connection if an answer on it shows that the server is useless.
func (l *nodeConn) dropIfUseless(answers []answer) {
	for i := range answers {
		if err := answers[i].err; answers[i].serverError() && isUseless(err) {
			l.drop(err)
			return
		}
	}
}

// drop gives the connection up for an error that the server answered. The connector dials again.
// Votes that come later do not count: by then the server may be a master again, with another one's
// keys.
func (l *nodeConn) drop(refusal error) {
	l.dropCause.CompareAndSwap(nil, &refusal)
	l.abandon()
}

// explainUnanswered gives the reason for a drop to what was not answered because of it.
func (l *nodeConn) explainUnanswered(answers []answer) {
	if l == nil || l.dropCause.Load() == nil { // nil: never connected
		return
	}
	for i := range answers {
		if r := &answers[i]; r.broken || errors.Is(r.err, errNotConnected) {
			r.err = *l.dropCause.Load()
		}
	}
}

// proveUsable returns why the server is useless, if it is. It asks only if a connection was dropped
// before: the handshake finds out whether the server is a replica, but only if the node is guarded.
func (n *node) proveUsable(ctx context.Context) error {
	if !n.mustProve {
		return nil
	}
	refusal, answered := n.probe(ctx)
	switch {
	case !answered:
		return errUnproven
	case refusal != nil && isUseless(refusal):
		return refusal
	}
	return nil
}

// errUnproven is why a node is down that was dropped, and does not answer again.
var errUnproven = errors.New("no answer to a probe, after the connection was dropped for an error")

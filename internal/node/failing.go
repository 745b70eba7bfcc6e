package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/stats"
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
	// When the first error since the last grant came, by Node.now; 0: none.
	since   atomic.Int64
	last    atomic.Pointer[error] // not nil if since is not 0
	recheck chan struct{}         // of capacity 1: the connector is to review the node
}

// noteAcquireErrors takes the answers of a flush.
func (n *Node) noteAcquireErrors(operations []Operation, answers []Answer) {
	var refusal error
	for i := range answers {
		switch {
		case operations[i].Op().Kind != Acquire || !answers[i].Replied:
		case answers[i].Vote == Granted:
			if n.acquireErrors.since.Load() != 0 {
				n.acquireErrors.since.Store(0)
				if n.Link.State() == link.Failing {
					n.recheck()
				}
			}
			return
		case answers[i].serverError():
			refusal = answers[i].Err
		}
	}
	if refusal == nil {
		return
	}
	last := refusal // which is in memory of its own only if there was one
	n.acquireErrors.last.Store(&last)
	if n.acquireErrors.since.CompareAndSwap(0, n.now()) {
		n.recheck()
	}
}

// now returns the time since New. It is never 0, which stands for none.
func (n *Node) now() int64 { return int64(time.Since(n.epoch)) + 1 }

// recheck has the connector review the node.
func (n *Node) recheck() {
	link.Notify(n.acquireErrors.recheck)
	n.Link.Wake()
}

// serverError reports whether the server answered with an error of its own.
func (r *Answer) serverError() bool {
	if r.Err == nil {
		return false // the usual case, without an allocation
	}
	var stale *FenceTooLowError
	return r.failureKind() == stats.FailedServer && !errors.As(r.Err, &stale)
}

// review makes the node failing or up. It returns when it is to be called again. It runs on the
// connector, which alone changes the state.
func (n *Node) review(ctx context.Context) (again time.Duration) {
	failing := n.Link.State() == link.Failing
	if n.refuses(failing) || time.Until(n.duties.look) <= 0 {
		n.duties.look = time.Now().Add(2 * probeDelay())
		c := n.Link.Verified()
		if c == nil {
			return probeDelay()
		}
		refusal, answered := n.Link.Probe(ctx)
		switch {
		case !answered || !n.Link.StillValid(c): // the server is slow, or about to be lost
			return probeDelay()
		case refusal == nil:
			n.acquireErrors.since.Store(0)
		case link.IsUseless(refusal):
			c.Drop(refusal)
			return probeDelay()
		}
	}
	refused := n.refuses(failing) // a grant may have come meanwhile
	switch {
	case refused && !failing:
		n.Link.SetState(link.Failing, *n.acquireErrors.last.Load())
	case !refused && failing:
		n.Link.SetState(link.Up, nil)
	}
	again = time.Until(n.duties.look)
	if since := n.acquireErrors.since.Load(); refused {
		again = probeDelay()
	} else if since != 0 {
		again = min(again, failingAfter-time.Duration(n.now()-since))
	}
	return again
}

// refuses reports whether the node has refused acquires for failingAfter, or has done so before and
// granted none since.
func (n *Node) refuses(failing bool) bool {
	since := n.acquireErrors.since.Load()
	return since != 0 && (failing || n.now()-since >= int64(failingAfter))
}

// probeDelay returns a random time, so that the clients of a node do not probe it all at once.
func probeDelay() time.Duration { return probeEvery/2 + rand.N(probeEvery/2) }

// dropIfUseless drops the connection if an answer on it shows that the server is useless.
func dropIfUseless(c *link.Conn, answers []Answer) {
	for i := range answers {
		if err := answers[i].Err; answers[i].serverError() && link.IsUseless(err) {
			c.Drop(err)
			return
		}
	}
}

// countFailures counts the failures among the answers of a flush.
func (n *Node) countFailures(answers []Answer) {
	for i := range answers {
		if err := answers[i].Err; err != nil && err != ErrSuperseded && err != ErrNotNeeded {
			n.Counts.Failures[answers[i].failureKind()].Add(1)
		}
	}
}

// failureKind returns why an operation that a flush carried has no vote.
func (r *Answer) failureKind() stats.NodeFailure {
	var bad resp.ProtocolError
	switch {
	case r.Err == ErrQueuedTooLong:
		return stats.FailedQueuedTooLong
	case r.Err == link.ErrDataLoss:
		return stats.FailedDataLoss
	case errors.As(r.Err, &bad):
		return stats.FailedProtocol
	case r.Replied:
		return stats.FailedServer
	}
	return stats.FailedConnection
}

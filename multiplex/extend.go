package multiplex

import (
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/node"
)

// appender takes attempts: the log, or a draft of it.
type appender interface {
	Append(a *Attempt, nodes uint64) (batch.Place[Attempt, roundState], error)
}

// Extend starts one attempt to let all keys of the claim last for ttl from now. A key that lasts
// longer keeps its end; if ttl is shorter than an earlier one, the claim needs cleanup. A node that
// lacks some of the keys gets them again, but does not count for this attempt.
//
// It is not sent after sendBefore, when the lease may be over. The caller counts it only if the
// lease is still valid when Wait returns. Wait waits for NodeTimeout or for minTimeout, whichever
// is longer. Held says that the lease is lost. batchKeys is as in Acquire.
func (m *Mux) Extend(c *Claim, ttl time.Duration, sendBefore time.Time, minTimeout time.Duration,
	batchKeys int,
) *Attempt {
	return m.extend(c, ttl, sendBefore, max(m.timeoutFor(batchKeys), minTimeout), m.log)
}

func (m *Mux) extend(c *Claim, ttl time.Duration, sendBefore time.Time, timeout time.Duration,
	to appender,
) *Attempt {
	a := m.newAttempt(c, node.Extend, ttl, timeout, ttl/2)
	a.maxAge = min(a.maxAge, sendBefore.Sub(a.op.Sent))
	a.timeout = min(a.timeout, a.maxAge)
	return m.submit(a, to)
}

// Extensions are extensions that leave together, in rounds that nothing else joins. So the nodes
// are sent them in few trips. They belong to one goroutine.
type Extensions struct {
	mux     *Mux
	timeout time.Duration
	draft   *batch.Draft[Attempt, roundState]
}

// Extensions returns none yet. keys is the number of keys of all that will be added.
func (m *Mux) Extensions(keys int) *Extensions {
	return &Extensions{m, m.timeoutFor(keys), m.log.Draft()}
}

// Add is Mux.Extend, but the attempt waits for Send. A release that comes before that, or a newer
// extension, takes its place.
func (e *Extensions) Add(c *Claim, ttl time.Duration, sendBefore time.Time,
	minTimeout time.Duration,
) *Attempt {
	return e.mux.extend(c, ttl, sendBefore, max(e.timeout, minTimeout), e.draft)
}

// Send puts what was added into the log. It must be called, because Mux.Close waits for that.
func (e *Extensions) Send() { e.draft.Submit() }

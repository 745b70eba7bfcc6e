package multiplex

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
)

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
	a := m.newAttempt(c, node.Extend, ttl, max(m.timeoutFor(batchKeys), minTimeout), ttl/2)
	a.maxAge = min(a.maxAge, sendBefore.Sub(a.op.Sent))
	a.timeout = min(a.timeout, a.maxAge)
	return m.submit(a)
}

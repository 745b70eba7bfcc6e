package multiplex

import "github.com/lockpipe/lockpipe/internal/node"

// Done says that the only caller that waited for an extension does not touch it any more. Its
// memory is used again when every node has answered it. Without that, a hundred thousand held
// leases would keep the garbage collector busy, and all callers would wait for it.
func (a *Attempt) Done() { a.end(&a.done) }

// allAnswered says that every node is done with the round that has the extension.
func (a *Attempt) allAnswered() { a.end(&a.answered) }

// end notes one of the two ends of an extension. After both nothing refers to it any more but its
// claim.
func (a *Attempt) end(mark *bool) {
	c := a.claim
	c.mu.Lock()
	*mark = true
	reusable := a.done && a.answered
	if reusable {
		if a.tryDecide(); c.latest == a {
			c.latest = nil
		}
		c.unanswered() // which forgets it, if it is an earlier one
	}
	c.mu.Unlock()
	if reusable {
		m := a.mux
		*a = Attempt{}
		m.attemptPool.Put(a)
	}
}

// Attempts is memory for the two attempts that most claims make. It is used once.
type Attempts struct{ acquire, release Attempt }

// emptyAttempt returns memory for an attempt of this kind.
func (m *Mux) emptyAttempt(c *Claim, k node.Kind) *Attempt {
	var a *Attempt
	switch {
	case k == node.Extend:
		a, _ = m.attemptPool.Get().(*Attempt)
	case c.memory == nil:
	case k == node.Acquire:
		a = &c.memory.acquire
	default:
		a = &c.memory.release
	}
	if a == nil || a.mux != nil { // it was used
		return new(Attempt)
	}
	return a
}

package multiplex

// Done says that the only caller that waited for an extension does not touch it any more. Its
// memory is used again when every node has answered it. Without that, a hundred thousand held
// leases would keep the garbage collector busy, and all callers would wait for it.
func (a *Attempt) Done() {
	c := a.claim
	c.mu.Lock()
	a.done = true
	reusable := a.reusable()
	c.mu.Unlock()
	if reusable {
		a.mux.recycle(a)
	}
}

// reusable reports whether nothing refers to the attempt any more. The caller that waited is done
// with it, and the claim has dropped it (Claim.trim). Every node has answered, so it is in no
// backlog and in no flush. If it was cancelled or dropped on a node, there is no answer from there.
// It becomes true once. claim.mu is held.
func (a *Attempt) reusable() bool { return a.done && a.completed == allNodes(len(a.calls)) }

// recycle takes the memory of an attempt that nothing refers to.
func (m *Mux) recycle(a *Attempt) {
	*a = Attempt{}
	m.attemptPool.Put(a)
}

// newFromPool returns an empty attempt.
func (m *Mux) newFromPool(k kind) *Attempt {
	if k == extend {
		if a, _ := m.attemptPool.Get().(*Attempt); a != nil {
			return a
		}
	}
	return new(Attempt)
}

package multiplex

// Forget says that the only one who waited for an extension has done with it and does not touch it
// any more. Its memory is used again when every node has answered it: else a hundred thousand
// leases that are held would keep the garbage collector busy, and everybody would wait for it.
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

// spent reports whether nothing refers to the attempt any more: who waited has forgotten it, and
// every node has answered, so it is in no backlog and in no flush (one that was cancelled or
// dropped has no answer from there), and the claim has dropped it (Claim.rest). It becomes true
// once. claim.mu is held.
func (a *Attempt) reusable() bool { return a.done && a.completed == allNodes(len(a.calls)) }

// recycle takes the memory of an attempt that is spent.
func (m *Mux) recycle(a *Attempt) {
	*a = Attempt{}
	m.attemptPool.Put(a)
}

// memory returns an attempt without anything in it.
func (m *Mux) newFromPool(k kind) *Attempt {
	if k == extend {
		if a, _ := m.attemptPool.Get().(*Attempt); a != nil {
			return a
		}
	}
	return new(Attempt)
}

package locker

// maxFenceRetries is how often in a row an attempt is made again at once because its fence was too
// low. The second attempt is high enough, unless clients with faster clocks take the same keys in
// between.
const maxFenceRetries = 3

// fencesWanted returns how many fences an attempt asks for, at most. They are many if the lease may
// be handed to other calls of the process.
func (k *Locker) fencesWanted(keys []string, o *Options) int64 {
	switch {
	case !o.Fencing:
		return 0
	case o.Refused || k.Queue.HasWaiters(keys[0]):
		return 1 + maxFencedHandoffs
	}
	return 1
}

// mayRaiseFence takes an attempt that failed, and reports whether to make it again at once, with a
// higher fence. What it has left is released ahead of that on each node.
func (a *attempt) mayRaiseFence() (again bool) {
	seen, again := a.of.FenceTooLow()
	if again { // if only a few nodes have a higher one, no other call needs to know of it
		a.floor = max(a.floor, seen)
	}
	if !again || a.raised == maxFenceRetries {
		a.raised = 0
		return false
	}
	a.raised++
	return true
}

// Fence returns the number of a lease that was taken with fencing, and 0 for any other one.
func (l *Lease) Fence() int64 { return max(l.fence, 0) }

// nextFence returns the number of the next holder if the lease is handed off. ok is false if the
// reserved numbers have run out; then the nodes must be asked for more.
func (l *Lease) nextFence() (n int64, ok bool) {
	if l.fence == 0 {
		return 0, true
	}
	_, last := l.claim.Fences()
	n = max(l.fence, -l.fence) + 1
	return n, n <= last
}

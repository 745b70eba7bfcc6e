package locker

import (
	"sync"
	"sync/atomic"
)

// closedBit marks gate.count when the gate is closed.
const closedBit = 1 << 62

// gate counts what is under way, and tells when nothing is any more after it was closed. newGate
// makes it.
type gate struct {
	count atomic.Int64  // plus closedBit once it is closed
	empty chan struct{} // closed when the gate is closed and nothing is under way
	once  sync.Once     // closes empty
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

// enter counts something in, and returns how much is under way then. If the gate is closed, it
// counts nothing and returns false.
func (g *gate) enter() (n int, open bool) {
	count := g.count.Add(1)
	if open = count&closedBit == 0; !open {
		g.leave()
	}
	return int(count &^ closedBit), open
}

// leave counts something out.
func (g *gate) leave() {
	if g.count.Add(-1) == closedBit {
		g.once.Do(func() { close(g.empty) })
	}
}

// close closes the gate, and returns false if it was closed before. The caller is counted in, so
// that the gate is not empty before it leaves.
func (g *gate) close() (first bool) {
	for {
		n := g.count.Load()
		if n&closedBit != 0 {
			return false
		}
		if g.count.CompareAndSwap(n, (n|closedBit)+1) {
			return true
		}
	}
}

package locker

import (
	"sync"
	"sync/atomic"
)

// closedBit marks Gate.count when the gate is closed.
const closedBit = 1 << 62

// Gate counts what is under way, and tells when nothing is any more after it was closed. newGate
// makes it.
type Gate struct {
	count atomic.Int64  // plus closedBit once it is closed
	empty chan struct{} // closed when the gate is closed and nothing is under way
	once  sync.Once     // closes empty
}

func newGate() *Gate { return &Gate{empty: make(chan struct{})} }

// Enter counts something in, and returns how much is under way then. If the gate is closed, it
// counts nothing and returns false.
func (g *Gate) Enter() (n int, open bool) {
	count := g.count.Add(1)
	if open = count&closedBit == 0; !open {
		g.Leave()
	}
	return int(count &^ closedBit), open
}

// Leave counts something out.
func (g *Gate) Leave() {
	if g.count.Add(-1) == closedBit {
		g.once.Do(func() { close(g.empty) })
	}
}

// close closes the gate, and returns false if it was closed before. The caller is counted in, so
// that the gate is not empty before it leaves.
func (g *Gate) close() (first bool) {
	g.count.Add(1)
	if first = g.count.Or(closedBit)&closedBit == 0; !first {
		g.Leave()
	}
	return first
}

package multiplex

import (
	"context"
	"sync"
	"time"
)

// firstUsePatience is how long a connection without a marker waits for those of the other nodes.
const firstUsePatience = 500 * time.Millisecond

// firstUse finds out whether these masters are used for the first time: all of them answer and none has a marker, all at the same
// moment, each on a connection that is open. That can happen once in the life of a Mux, and not after it has seen a marker or admitted a
// node: then all nodes without a marker have lost it together.
type firstUse struct {
	mu        sync.Mutex // guards all below; a leaf
	all       nodeSet
	waiting   nodeSet       // nodes without a marker whose connection waits
	unguarded nodeSet       // nodes that can't have one
	over      bool          // it is decided, for good
	granted   nodeSet       // nodes that waited when it turned out to be the first use, and have not been told
	decided   chan struct{} // closed when over
}

func newFirstUse(nodes int) *firstUse {
	return &firstUse{all: firstNodes(nodes), decided: make(chan struct{})}
}

// join waits with the connection of one node for those of all others. It reports whether this is the first use.
func (f *firstUse) join(ctx context.Context, node int) bool {
	f.mu.Lock()
	f.waiting |= one(node)
	f.complete()
	f.mu.Unlock()
	patience := firstUsePatience
	if end, ok := ctx.Deadline(); ok { // what comes after the waiting needs time as well
		patience = min(patience, time.Until(end)/2)
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-f.decided:
	case <-t.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.granted.has(node) // a later connection of this node has another reason to lack the marker
	f.waiting &^= one(node)
	f.granted &^= one(node)
	return first
}

// exempt counts a node without a marker as there.
func (f *firstUse) exempt(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unguarded |= one(node)
	f.complete()
}

// complete decides when all are there. mu is held.
func (f *firstUse) complete() {
	if !f.over && f.waiting|f.unguarded == f.all {
		f.granted = f.waiting
		f.end()
	}
}

// ruleOut: it is not the first use any more.
func (f *firstUse) ruleOut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
}

// end is called with mu held.
func (f *firstUse) end() {
	if !f.over {
		f.over = true
		close(f.decided)
	}
}

// possible reports whether it may still turn out to be the first use.
func (f *firstUse) possible() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.over
}

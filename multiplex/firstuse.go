package multiplex

import (
	"context"
	"sync"
	"time"
)

// firstUsePatience is how long a connection without a marker waits for those of the other nodes.
const firstUsePatience = 500 * time.Millisecond

// firstUse finds out whether these masters are used for the first time: all of them answer and none
// has a marker, all at the same moment, each on a connection that is open. When all have met, each
// looks again, since the first look of some may be old by then. That can happen once in the life of
// a Mux, and not after it has seen a marker or admitted a node: then all nodes without a marker
// have lost it together.
type firstUse struct {
	mu        sync.Mutex // guards all below; a leaf
	all       nodeSet
	waiting   nodeSet   // nodes without a marker whose connection waits
	confirmed nodeSet   // of these, nodes that had none either after all had met
	meeting   int       // how often a node has left
	unguarded nodeSet   // nodes that can't have one
	present   nodeSet   // nodes that have waited, and are not down since
	over      time.Time // when it was decided, for good
	// Nodes that waited when it turned out to be the first use, and have not been told.
	granted nodeSet
	changed chan struct{} // closed when any of this changes
}

func newFirstUse(nodes int) *firstUse {
	return &firstUse{all: allNodes(nodes), changed: make(chan struct{})}
}

// join waits with the connection of one node for those of all others. It reports whether this is
// the first use. look reports whether the node still has no marker.
func (f *firstUse) join(ctx context.Context, node int, look func() (unmarked bool,
	err error),
) (first bool, err error) {
	patience := firstUsePatience
	if end, ok := ctx.Deadline(); ok { // what comes after the waiting needs time as well
		patience = min(patience, time.Until(end)/2)
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	f.enter(node)
	defer func() { first = f.leave(node) || first }()
	for {
		decided, first, meeting, changed := f.state(node)
		switch {
		case decided:
			return first, nil
		case meeting >= 0:
			unmarked, err := look()
			if err != nil {
				return false, err
			}
			if !unmarked {
				f.ruleOut()
				return false, nil
			}
			f.confirm(node, meeting)
			continue
		}
		select {
		case <-changed:
		case <-t.C:
			return false, nil
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (f *firstUse) enter(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting |= nodeBit(node)
	f.present |= nodeBit(node)
	f.tell()
}

// leave ends the waiting of a node, and tells whether it was granted the first use meanwhile. If
// the others have met with it and that is not decided, they have to meet again.
func (f *firstUse) leave(node int) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first = f.granted.has(node)
	f.waiting &^= nodeBit(node)
	f.granted &^= nodeBit(node)
	f.confirmed = 0
	f.meeting++
	f.tell()
	return first
}

// state is what a waiting node needs to know: whether all is decided, and how for it; the number of
// the meeting that it is to look again for, or -1; and what is closed when that changes.
func (f *firstUse) state(node int) (decided, first bool, meeting int, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	meeting = -1
	if f.waiting|f.unguarded == f.all && !f.confirmed.has(node) {
		meeting = f.meeting
	}
	return !f.over.IsZero(), f.granted.has(node), meeting, f.changed
}

// confirm notes that a node had no marker when all had met.
func (f *firstUse) confirm(node, meeting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if meeting != f.meeting || !f.over.IsZero() {
		return
	}
	f.confirmed |= nodeBit(node)
	if f.confirmed|f.unguarded == f.all {
		f.granted = f.confirmed
		f.over = time.Now()
		f.tell()
	}
}

// exempt counts a node without a marker as there.
func (f *firstUse) exempt(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unguarded |= nodeBit(node)
	f.tell()
}

// ruleOut: it is not the first use any more.
func (f *firstUse) ruleOut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over.IsZero() {
		f.over = time.Now()
		f.tell()
	}
}

// down notes that a node is down. It is for the text alone.
func (f *firstUse) down(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present &^= nodeBit(node)
}

// missing returns the nodes that keep the others waiting, while it may be the first use.
func (f *firstUse) missing() (missing nodeSet, possible bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all &^ (f.present | f.unguarded), f.over.IsZero()
}

// whyFirstUse is why a node is quarantined that has no marker, while it may be the first use.
func whyFirstUse(nodes []string, missing nodeSet) string {
	const text = "first use? no node has a marker yet, "
	if missing == 0 {
		return text + "but not all of them answered at the same time: if they do, all vote at once"
	}
	var names []string
	for i, name := range nodes {
		if missing.has(i) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return text + "and " + names[0] + " is down: if it comes and has none either, all vote " +
			"at once"
	}
	return text + "and " + listed(names) +
		" are down: if they come and have none either, all vote at once"
}

// tell wakes all that wait. mu is held.
func (f *firstUse) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// possible reports whether it may still turn out to be the first use.
func (f *firstUse) possible() bool { return f.overFor() == 0 }

// overFor is for how long it has been impossible; 0 while it is possible.
func (f *firstUse) overFor() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over.IsZero() {
		return 0
	}
	return max(1, time.Since(f.over))
}

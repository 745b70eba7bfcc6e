package restartguard

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
)

// firstUseTimeout is how long a connection without a marker waits for those of the other nodes.
const firstUseTimeout = 500 * time.Millisecond

// firstUse finds out whether these nodes are used for the first time: all of them answer and none
// has a marker, all at the same moment, each on a connection that is open. When all have met, each
// looks again, since the first look of some may be old by then. That can happen once in the life of
// a client, and not after it has seen a marker or admitted a node: then all nodes without a marker
// have lost it together.
type firstUse struct {
	all quorum.Nodes

	mu        sync.Locker  // of Peers; guards all below
	waiting   quorum.Nodes // nodes without a marker whose connection waits
	confirmed quorum.Nodes // of these, nodes that still had none after all had met
	round     int          // how often a node has left
	unguarded quorum.Nodes // nodes that can't have a marker
	present   quorum.Nodes // nodes that have waited, and are not down since
	decidedAt time.Time    // when it was decided; it stays so
	// granted are nodes that waited when it turned out to be the first use, and don't know it yet.
	granted quorum.Nodes
	changed chan struct{} // closed when any of this changes
}

func newFirstUse(nodes int, mu sync.Locker) *firstUse {
	return &firstUse{all: quorum.First(nodes), mu: mu, changed: make(chan struct{})}
}

// await waits with the connection of one node for those of all others. It reports whether this is
// the first use. recheck reports whether the node still has no marker.
func (f *firstUse) await(ctx context.Context, node int, recheck func() (unmarked bool,
	err error),
) (first bool, err error) {
	timeout := firstUseTimeout
	if end, ok := ctx.Deadline(); ok { // what comes after the waiting needs time as well
		timeout = min(timeout, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f.enter(node)
	defer func() { first = f.leave(node) || first }()
	for {
		decided, first, round, changed := f.state(node)
		switch {
		case decided:
			return first, nil
		case round >= 0:
			unmarked, err := recheck()
			if err != nil {
				return false, err
			}
			if !unmarked {
				f.ruleOut()
				return false, nil
			}
			f.confirm(node, round)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (f *firstUse) enter(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting |= quorum.Node(node)
	f.present |= quorum.Node(node)
	f.wakeAll()
}

// leave ends the waiting of a node, and returns whether it was granted the first use meanwhile. If
// the others have met with it and that is not decided, they have to meet again.
func (f *firstUse) leave(node int) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first = f.granted.Has(node)
	f.waiting &^= quorum.Node(node)
	f.granted &^= quorum.Node(node)
	f.confirmed = 0
	f.round++
	f.wakeAll()
	return first
}

// state is what a waiting node needs to know: whether all is decided, and how for it; the round in
// which it is to look again, or -1; and what is closed when that changes.
func (f *firstUse) state(node int) (decided, first bool, round int, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	round = -1
	if f.waiting|f.unguarded == f.all && !f.confirmed.Has(node) {
		round = f.round
	}
	return !f.decidedAt.IsZero(), f.granted.Has(node), round, f.changed
}

// confirm records that a node had no marker when all had met.
func (f *firstUse) confirm(node, round int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if round != f.round || !f.decidedAt.IsZero() {
		return
	}
	f.confirmed |= quorum.Node(node)
	if f.confirmed|f.unguarded == f.all {
		f.granted = f.confirmed
		f.decidedAt = time.Now()
		f.wakeAll()
	}
}

// addUnguarded counts a node that can't have a marker as there.
func (f *firstUse) addUnguarded(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unguarded |= quorum.Node(node)
	f.wakeAll()
}

// ruleOut records that it is not the first use any more.
func (f *firstUse) ruleOut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.decidedAt.IsZero() {
		f.decidedAt = time.Now()
		f.wakeAll()
	}
}

// setDown records that a node is down. It is for the text alone.
func (f *firstUse) setDown(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present &^= quorum.Node(node)
}

// missing returns the nodes that keep the others waiting, while it may be the first use.
func (f *firstUse) missing() (missing quorum.Nodes, possible bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all &^ (f.present | f.unguarded), f.decidedAt.IsZero()
}

// wakeAll wakes all that wait. mu is held.
func (f *firstUse) wakeAll() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// isPossible reports whether it may still turn out to be the first use.
func (f *firstUse) isPossible() bool { return f.decidedFor() == 0 }

// decidedFor returns for how long it has been impossible; 0 while it is possible.
func (f *firstUse) decidedFor() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.decidedAt.IsZero() {
		return 0
	}
	return max(1, time.Since(f.decidedAt))
}

// firstUseReason is why a node is quarantined that has no marker, while it may be the first use. It
// names five of the nodes that are missing, at most.
func firstUseReason(nodes []string, missing quorum.Nodes) string {
	const text = "first use? no node has a marker yet, "
	const most = 5
	var names []string
	for i, name := range nodes {
		if missing.Has(i) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return text + "but not all of them answered at the same time: if they do, all vote at once"
	case 1:
		return text + "and " + names[0] + " is down: if it comes and has none either, all vote " +
			"at once"
	}
	list := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		list += ", ..."
	}
	return text + "and " + list + " are down: if they come and have none either, all vote at once"
}

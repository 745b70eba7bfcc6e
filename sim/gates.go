package sim

import (
	"slices"
	"time"

	"github.com/lockpipe/lockpipe"
)

// GuardAuto has one gap. If all nodes that were admitted lose their memory, a client that has never
// met a node takes them for new ones. So no client starts while no node has a marker, and no node
// loses its memory while there is such a client. The functions below return false if the run ends
// first.

// awaitAllMetNode waits until every client has met a node of each group.
func (r *run) awaitAllMetNode() bool {
	return r.awaitIfAuto(func() bool {
		return !slices.ContainsFunc(r.processes,
			func(p *process) bool { return !p.hasMetNodes() })
	})
}

// awaitMayStart waits until a client may start: a node has its marker, and nothing is going on that
// only clients can know that were there.
func (r *run) awaitMayStart() bool {
	return r.awaitMarker() && r.await(func() bool { return !r.noStartUntil.inFuture() })
}

// awaitMarker waits until a node of each group has its marker.
func (r *run) awaitMarker() bool {
	return r.awaitIfAuto(func() bool { return !r.firstLayout().firstUsePossible(r.hasMarker) })
}

func (r *run) awaitIfAuto(met func() bool) bool {
	losesNothing := r.plan.lossEvery == 0 && r.cluster == nil
	return losesNothing || r.plan.guard != lockpipe.GuardAuto || r.await(met)
}

// await waits until met returns true.
func (r *run) await(met func() bool) bool {
	for !met() {
		if !r.sleep(10 * time.Millisecond) {
			return false
		}
	}
	return true
}

// noteWhoKnows is called before a loss. If all clients know all nodes, each record that comes next
// says that the node has lost something.
func (r *run) noteWhoKnows() {
	all := true
	for node := range nodes {
		all = all && r.allConnected(node)
	}
	r.allKnew.Store(all)
}

// awaitEntries waits until all clients have left an entry on each node, with their MaxTTL. A node
// that loses its entries waits for what others have. It goes unnoticed if a client with a longer
// MaxTTL is cut off from those, and if only clients with a shorter one come back.
func (r *run) awaitEntries() bool {
	return r.await(func() bool {
		return !slices.ContainsFunc(r.processes, func(p *process) bool { return !p.reachesAll() })
	})
}

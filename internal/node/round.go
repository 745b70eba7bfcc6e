package node

import (
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/refusals"
)

// Group is what the nodes of one Mux have in common. The zero value is ready.
type Group struct {
	refused refusals.Keys
	low     refusals.Keys // keys whose fences were too low

	// The pools belong to the group, because channels belong to one synctest bubble.
	flushes   sync.Pool // of *Flush
	encodings sync.Pool // of *Encoding
}

// Round is what nodes are sent of one round of their owner's log. The zero value stands for a round
// of which each node makes commands of its own.
type Round struct {
	Shared Encodings
	Size   int // how many operations it has
	// SendBefore is when the first of its operations is of no use any more.
	SendBefore time.Time
}

// Encodings are what all nodes with the same commands are sent, for each set of commands; nil: no
// node was connected that has them.
type Encodings [link.CommandSets]*Encoding

// NewEncodings returns empty encodings for the sets of commands that are in use: those of the nodes
// that are connected, or the empty set. A node that connects later, or whose set has changed by
// then, makes commands of its own.
func (g *Group) NewEncodings(nodes []*Node) (all Encodings) {
	connected := false
	for _, n := range nodes {
		set, is := n.Commands()
		if connected = connected || is; is && all[set] == nil {
			all[set] = g.newEncoding(set, false)
		}
	}
	if !connected {
		all[0] = g.newEncoding(0, false)
	}
	return all
}

// Add takes the operation with this index.
func (all *Encodings) Add(i int, o *Op) {
	for _, e := range all {
		if e != nil {
			e.add(i, o)
		}
	}
}

// End makes commands of what was added.
func (all *Encodings) End() {
	for _, e := range all {
		if e != nil {
			e.end()
		}
	}
}

// Recycle takes the memory of encodings that no node uses any more.
func (g *Group) Recycle(all Encodings) {
	for _, e := range all {
		if e != nil {
			g.encodings.Put(e)
		}
	}
}

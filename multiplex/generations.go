package multiplex

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxGenerations is how many a node keeps: the present and the former one of each node, and
	// more.
	maxGenerations = 3 * MaxNodes
	// generationDigits is how long a number can be, so that a script can count with it.
	generationDigits = 13
	// endedGeneration is the number of an id that no node has any more: whatever shows it is an
	// older copy.
	endedGeneration = 9_999_999_999_999
	// recoveringFor is how long a node that restarted with its disk is no witness for others that
	// did. By then the clients have told it what they know.
	recoveringFor = 10 * time.Second
)

// noGeneration is what a node keeps as its own if it has none.
const noGeneration = "-=0"

// generation is how far the memory of a node has come. While a client is connected to a durable
// node, the number rises every few seconds. The id is drawn when the node is admitted after it has
// forgotten something. So a lower number of the same id is an older copy of the node's memory,
// whatever server shows it.
type generation struct {
	id     string // "" for a node that has none
	number int64
}

// readGenerations reads what a node has: its own generation, and the numbers that it keeps of
// others. What is not of that form is left out.
func readGenerations(text string) (own generation, others map[string]int64) {
	others = make(map[string]int64)
	for i, entry := range strings.Fields(text) {
		id, digits, _ := strings.Cut(entry, "=")
		number, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case i >= maxGenerations:
			return own, others
		case err != nil || number < 0 || len(digits) > generationDigits || id == "-":
		case i == 0:
			own = generation{id, number}
		default:
			others[id] = number
		}
	}
	return own, others
}

// generations is what this client knows of the nodes' generations. It tells a durable node that
// restarted with its whole memory from one whose disk was put back from a copy:
//
//  1. A number that this client got from a node, or another node keeps of it, is never above the
//     true one. The node had written it to its disk before it answered.
//  2. So a node with a lower number of the same id has forgotten something: see forgot.
//  3. A holder of a lease is connected to a quorum, and each node of it is told the others' numbers
//     every few seconds. So of any nodes that are more than a quorum leaves out, one keeps the
//     number of that time: see vouch.
type generations struct {
	renewal []chan struct{} // of capacity 1, for each node: its generations are to be renewed now

	mu    sync.Mutex // guards all below; a leaf
	nodes []keptGenerations
}

// keptGenerations is what is known from one node.
type keptGenerations struct {
	own    generation       // its own, as it was confirmed to this client
	runID  string           // of the server that confirmed it
	former string           // the id that the same server had before
	others map[string]int64 // what it keeps
	asked  time.Time        // before that was asked for
	// recovered is when the node was seen last that had restarted with its disk, before it was
	// admitted.
	recovered time.Time
}

func newGenerations(nodes int) *generations {
	g := &generations{nodes: make([]keptGenerations, nodes)}
	for range nodes {
		g.renewal = append(g.renewal, make(chan struct{}, 1))
	}
	return g
}

// confirmed notes the generation that a server keeps as its own. An id that the same server had
// before has ended. If the node had another server, that may still be there, under another name.
func (g *generations) confirmed(node int, runID string, own generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := &g.nodes[node]
	if n.own.id == own.id && n.own.number > own.number {
		return // it has fallen, and is found so when it is read again
	}
	if n.runID == runID && n.own.id != own.id && n.own.id != "" {
		n.former = n.own.id
	}
	n.own, n.runID = own, runID
}

// ended notes that a server has an id no more, because it has forgotten something.
func (g *generations) ended(node int, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id != "" {
		g.nodes[node].former = id
	}
}

// heard notes what a node keeps of others, if it has forgotten nothing.
func (g *generations) heard(node int, others map[string]int64, asked time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes[node].others, g.nodes[node].asked = others, asked
}

// recovering is heard of a node that restarted with its disk, which may have been put back together
// with another one.
func (g *generations) recovering(node int, others map[string]int64, asked time.Time) {
	g.heard(node, others, asked)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes[node].recovered = asked
}

// own is a node's own generation, as it was confirmed to this client last.
func (g *generations) own(node int) generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[node].own
}

// except is what a node is to keep: the generations of the others, and that those before them have
// ended.
func (g *generations) except(node int) (others []generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, n := range g.nodes {
		if i == node {
			continue
		}
		if n.own.id != "" {
			others = append(others, n.own)
		}
		if n.former != "" {
			others = append(others, generation{n.former, endedGeneration})
		}
	}
	return others
}

// forgot reports whether a higher number of the same id is known.
func (g *generations) forgot(own generation) bool {
	if own.id == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.nodes {
		if n.own.id == own.id && n.own.number > own.number || n.former == own.id ||
			n.others[own.id] > own.number {
			return true
		}
	}
	return false
}

// vouch reports whether the others show that the node has forgotten nothing: a higher number would
// be known. They were asked since, one of them keeps the node's generation, and
//
//   - there are more of them than a quorum leaves out, none of which has just restarted with its
//     disk itself,
//   - or it is all of them, and each has: then all nodes restarted together.
//
// A single node has no others. A client that knows its generation can vouch for it; with GuardAuto
// so can one that knows nothing of it.
func (g *generations) vouch(node int, own generation, since time.Time, mode GuardMode) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes := len(g.nodes)
	if nodes == 1 {
		return mode == GuardAuto || own.id != "" && g.nodes[0].own.id == own.id
	}
	witnesses, recovering, kept := 0, 0, false
	for i, n := range g.nodes {
		if i == node || !n.asked.After(since) {
			continue
		}
		if n.recovered.IsZero() || n.asked.Sub(n.recovered) > recoveringFor {
			witnesses++
		} else {
			recovering++
		}
		_, has := n.others[own.id]
		kept = kept || has
	}
	return kept && (witnesses > nodes-quorum(nodes) || recovering == nodes-1)
}

// renewOthers has the other nodes asked soon.
func (g *generations) renewOthers(node int) {
	for i, c := range g.renewal {
		if i != node {
			notify(c)
		}
	}
}

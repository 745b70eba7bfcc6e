package restartguard

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
)

const (
	// maxGenerations is how many a node keeps: the present and the former one of each of 64 nodes,
	// and more. script.Renew has the same number.
	maxGenerations = 192
	// generationDigits is how long a number can be, so that a script can count with it.
	generationDigits = 13
	// endedGeneration is the number of an id that no node has any more: whatever shows the id is an
	// older copy.
	endedGeneration = 9_999_999_999_999
	// recoveringFor is how long a node that restarted with its disk is no witness for others that
	// did. By then the clients have brought it what they know.
	recoveringFor = 10 * time.Second
)

// noGeneration is what a node keeps as its own if it has none.
const noGeneration = "-=0"

// generation is how far the memory of a node has come. While a client is connected to a durable
// node, the number rises every few seconds. The id is drawn when the node is admitted after it has
// lost something. So a lower number of the same id is an older copy of the node's memory, whatever
// server shows it.
type generation struct {
	id     string // "" for a node that has none
	number int64
}

// newGenerationID draws an id that no node ever had.
func newGenerationID() string { return rand.Text()[:12] }

// text is how a node keeps a generation.
func (g generation) text() string { return g.id + "=" + strconv.FormatInt(g.number, 10) }

// parseGenerations reads what a node has: its own generation, and the numbers that it keeps of
// others. It leaves out what is not of that form.
func parseGenerations(text string) (own generation, others map[string]int64) {
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
// restarted with its whole memory from one whose disk was put back from a copy: see Generations in
// the package comment.
type generations struct {
	sets      []quorum.Nodes // of nodes of which leases have a quorum
	renewSoon []func()       // of each node; nil in tests. Written before the guards are used

	mu    sync.Locker // of Peers; guards all below
	nodes []nodeGeneration
}

// nodeGeneration is what is known from one node.
type nodeGeneration struct {
	own      generation       // its own, as it was confirmed to this client
	runID    string           // of the server that confirmed it
	formerID string           // the id that the same server had before
	others   map[string]int64 // what it keeps
	askedAt  time.Time        // before it was asked for that
	// recoveringAt is when the node was seen last that had restarted with its disk, before it was
	// admitted.
	recoveringAt time.Time
}

func newGenerations(nodes int, sets []quorum.Nodes, mu sync.Locker) *generations {
	return &generations{
		sets: sets, renewSoon: make([]func(), nodes), mu: mu,
		nodes: make([]nodeGeneration, nodes),
	}
}

// confirm records the generation that a server keeps as its own. An id that the same server had
// before has ended. If the node had another server, that may still be there, under another name.
func (g *generations) confirm(node int, runID string, own generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := &g.nodes[node]
	if n.own.id == own.id && n.own.number > own.number {
		return // it has fallen, and is found so when it is read again
	}
	if n.runID == runID && n.own.id != own.id && n.own.id != "" {
		n.formerID = n.own.id
	}
	n.own, n.runID = own, runID
}

// end records that a server no longer has an id, because it has lost something.
func (g *generations) end(node int, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id != "" {
		g.nodes[node].formerID = id
	}
}

// hear records what a node keeps of others, if it has lost nothing.
func (g *generations) hear(node int, others map[string]int64, askedAt time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes[node].others, g.nodes[node].askedAt = others, askedAt
}

// hearRecovering is hear for a node that restarted with its disk, which may have been put back
// together with another one.
func (g *generations) hearRecovering(node int, others map[string]int64, askedAt time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := &g.nodes[node]
	n.others, n.askedAt, n.recoveringAt = others, askedAt, askedAt
}

// own returns a node's own generation, as it was confirmed to this client last.
func (g *generations) own(node int) generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[node].own
}

// except returns what a node is to keep: the generations of the others, and that those before them
// have ended.
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
		if n.formerID != "" {
			others = append(others, generation{n.formerID, endedGeneration})
		}
	}
	return others
}

// isOutdated reports whether a higher number of the same id is known.
func (g *generations) isOutdated(own generation) bool {
	if own.id == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.nodes {
		if n.own.id == own.id && n.own.number > own.number || n.formerID == own.id ||
			n.others[own.id] > own.number {
			return true
		}
	}
	return false
}

// hasOlderMemory reports whether a server that was not admitted shows another id than this client
// knew on the node, and a marker of another run than it knew there. The node lost that id before it
// got the one that the client knew. Other clients can't know that: nothing links the two ids.
func (g *generations) hasOlderMemory(node int, own generation, formerRun string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := &g.nodes[node]
	return own.id != "" && known.own.id != "" && own.id != known.own.id &&
		formerRun != known.runID
}

// vouch reports whether the others show that the node has lost nothing: a higher number would be
// known. In each set that the node is in, they were asked since, one of them keeps the node's
// generation, and
//
//   - there are more of them than a quorum leaves out, none of which has just restarted with its
//     disk itself,
//   - or it is all of them, and each has: then all nodes of the set restarted together.
//
// If the node is alone in a set, it has no others there. A client that knows its generation can
// vouch for it. If not strict, so can a client that knows nothing of it.
func (g *generations) vouch(node int, own generation, since time.Time, strict bool) (vouched bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, set := range g.sets {
		if set.Has(node) {
			if vouched = g.vouchIn(set, node, own, since, strict); !vouched {
				return false
			}
		}
	}
	return vouched
}

// vouchIn is vouch by the nodes of one set. mu is held.
func (g *generations) vouchIn(set quorum.Nodes, node int, own generation, since time.Time,
	strict bool,
) bool {
	nodes := set.Count()
	if nodes == 1 {
		return !strict || own.id != "" && g.nodes[node].own.id == own.id
	}
	witnesses, recovering, kept := 0, 0, false
	for i, n := range g.nodes {
		if i == node || !set.Has(i) || !n.askedAt.After(since) {
			continue
		}
		if n.recoveringAt.IsZero() || n.askedAt.Sub(n.recoveringAt) > recoveringFor {
			witnesses++
		} else {
			recovering++
		}
		_, has := n.others[own.id]
		kept = kept || has
	}
	return kept && (witnesses > nodes-quorum.Need(nodes) || recovering == nodes-1)
}

// renewOthers has the other nodes renewed soon.
func (g *generations) renewOthers(node int) {
	for i, renew := range g.renewSoon {
		if i != node && renew != nil {
			renew()
		}
	}
}

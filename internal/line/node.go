package line

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/stats"
)

const (
	// maxQuery is the most questions of one trip.
	maxQuery = 128
	// maxAsks is the most questions that wait to be sent to one node.
	maxAsks = 1 << 18
	// A client whose turn it is has NodeTimeout to take it, within these bounds. Then its place
	// ends.
	minGrace = 50 * time.Millisecond
	maxGrace = 500 * time.Millisecond
)

// Node asks one node about lines and keys, in one trip at a time. All methods are safe for
// concurrent use.
type Node struct {
	link                  *link.Link
	counts                *stats.Node
	prefix, client, grace string

	// down reports whether nothing can be sent now, and exchange makes a trip. Tests set others.
	down     func() bool
	exchange func(asked []*Ask, answers []Place)
	log      *batch.Log[Ask, struct{}] // with one reader: the node

	mu      sync.Mutex          // guards all below, and the watches; a leaf but for the log
	watches map[string][]*Watch // those that are active, by name
}

// NewNode returns a Node without goroutines. prefix is before each key there, and client is the
// client's name in lines.
func NewNode(l *link.Link, counts *stats.Node, prefix, client string, timeout time.Duration) *Node {
	grace := min(max(timeout, minGrace), maxGrace).Milliseconds()
	n := &Node{
		link: l, counts: counts, prefix: prefix, client: client,
		grace: strconv.FormatInt(grace, 10), watches: make(map[string][]*Watch),
	}
	n.down = func() bool { return l.State().Rejects() }
	n.exchange = n.makeTrip
	n.log = batch.New(batch.Config[Ask, struct{}]{
		Readers: 1, Quorum: 1, Weight: func(*Ask) int { return 1 }, Read: n.flush,
		MaxWeight: maxQuery, Window: 1, Limit: maxAsks,
	})
	return n
}

// Ask sends a question, and reports whether it could: the node is not down, and few questions wait.
// The zero Place is the answer if the node does not answer. What is asked later comes later. in is
// the round of the log that has the question.
func (n *Node) Ask(a *Ask) (in *batch.Round[Ask, struct{}], sent bool) {
	if n.down() {
		return nil, false
	}
	in, err := n.log.Append(a, batch.All)
	return in, err == nil
}

// Close refuses questions, and ends all watches. Before that it waits for the trip under way, until
// ctx ends.
func (n *Node) Close(ctx context.Context) {
	_ = n.log.Close(ctx)
	n.Invalidated(nil)
}

// flush makes one trip, and passes on what the node says.
func (n *Node) flush(t *batch.Trip[Ask, struct{}]) {
	defer t.End()
	var asked []*Ask
	for _, round := range t.Rounds {
		asked = append(asked, round.Ops()...)
	}
	answers := make([]Place, len(asked))
	n.exchange(asked, answers)
	for i, a := range asked {
		if a.Answered != nil {
			a.Answered(answers[i])
		}
	}
}

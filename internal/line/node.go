package line

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/lockpipe/lockpipe/script"
)

const (
	// maxQuery is the most questions of one trip.
	maxQuery = 128
	// maxAsks is the most questions that wait to be sent to one node.
	maxAsks = 1 << 18
	// placeTTL is how long a place lasts that nobody renews. A client that waits renews it at least
	// each second.
	placeTTL = "3000"
	// maxPlaces is how many clients are in one line at most. The others ask again and again.
	maxPlaces = "1000"
	// turnTTL is how long the key is there that says that a ticket has left. Who asks for it has
	// just learned of the ticket.
	turnTTL = "1000"
	// A client whose turn it is has NodeTimeout to take it, within these bounds. Then its place
	// ends.
	minGrace = 50 * time.Millisecond
	maxGrace = 500 * time.Millisecond
)

// Node asks one node about lines, in one trip at a time. All methods are safe for concurrent use.
type Node struct {
	link                  *link.Link
	counts                *stats.Node
	prefix, client, grace string
	log                   *batch.Log[Ask, struct{}] // with one reader: the node
}

// NewNode returns a Node without goroutines. client is the client's name in lines.
func NewNode(l *link.Link, counts *stats.Node, prefix, client string, timeout time.Duration) *Node {
	grace := min(max(timeout, minGrace), maxGrace).Milliseconds()
	n := &Node{
		link: l, counts: counts, prefix: prefix, client: client,
		grace: strconv.FormatInt(grace, 10),
	}
	n.log = batch.New(batch.Config[Ask, struct{}]{
		Readers: 1, Quorum: 1, Weight: func(*Ask) int { return 1 }, Read: n.flush,
		MaxWeight: maxQuery, Window: 1, Limit: maxAsks,
	})
	return n
}

// Ask sends a question. If the node can't be reached, the zero Place is the answer. What is asked
// later comes later.
func (n *Node) Ask(a Ask) {
	_, down := n.link.Rejects()
	if !down {
		_, err := n.log.Append(&a, batch.All)
		down = err != nil
	}
	if down && !a.Leave {
		a.Answered(Place{})
	}
}

// Close refuses questions. It waits for the trip under way, until ctx ends.
func (n *Node) Close(ctx context.Context) { _ = n.log.Close(ctx) }

// flush makes one trip, and passes on what the node says.
func (n *Node) flush(t *batch.Trip[Ask, struct{}]) {
	var asks []*Ask
	for _, round := range t.Rounds {
		asks = append(asks, round.Ops()...)
	}
	places := make([]Place, len(asks))
	if n.link.AwaitConnected(context.Background()) == nil {
		sent := n.counts.FlushStarted(len(asks))
		if lost := n.send(asks, places, false); lost {
			n.send(asks, places, true)
		}
		n.counts.FlushEnded(time.Since(sent))
	}
	for i, a := range asks {
		if !a.Leave {
			places[i].Node = n.link.Name()
			a.Answered(places[i])
		}
	}
}

// send sets the places that the node knows. lost: it did not have the scripts; load loads them.
func (n *Node) send(asks []*Ask, places []Place, load bool) (lost bool) {
	conn := n.link.Verified()
	if conn == nil {
		return false
	}
	q := n.newQuery(asks, places, load)
	if conn.Trips.Enqueue(&q.trip) != nil {
		return false
	}
	conn.Trips.Flush()
	if end := <-q.ended; end != trip.Answered || !n.link.StillValid(conn) {
		clear(places)
		return false
	}
	return q.lost
}

// query is one trip.
type query struct {
	trip   trip.Trip
	places []Place
	of     []int // for each command, the place that its reply is about; negative: none
	lost   bool  // the node does not have a script
	ended  chan trip.End
}

func (n *Node) newQuery(asks []*Ask, places []Place, load bool) *query {
	q := &query{places: places, ended: make(chan trip.End, 1)}
	var text []byte
	add := func(place int, command ...string) {
		text, q.of = resp.AppendCommand(text, command...), append(q.of, place)
	}
	if load {
		add(-1, "SCRIPT", "LOAD", script.Line.Source)
		add(-1, "SCRIPT", "LOAD", script.Leave.Source)
	}
	for i, a := range asks {
		line, key := n.prefix+ids.LineKey+a.Key, n.prefix+a.Key
		ticket := strconv.FormatInt(a.Ticket, 10)
		if a.Leave {
			turn := n.prefix + ids.TurnOf(a.Key, a.Ticket)
			add(i, "EVALSHA", script.Leave.SHA, "2", line, turn, n.client, ticket, turnTTL, n.grace)
		} else {
			add(i, "EVALSHA", script.Line.SHA, "2", line, key, n.client, ticket, placeTTL,
				maxPlaces, n.grace)
			add(i, "GETRANGE", key, "0", strconv.Itoa(resp.MaxText-1))
		}
	}
	q.trip = trip.Trip{Parts: [][]byte{text}, Commands: len(q.of), Receiver: q}
	return q
}

// OnReply takes one reply.
func (q *query) OnReply(i int, r resp.Reply) {
	if q.of[i] < 0 {
		return
	}
	p := &q.places[q.of[i]]
	switch {
	case r.Kind == resp.KindError:
		q.lost = q.lost || strings.HasPrefix(string(r.Text), "NOSCRIPT")
	case r.Kind == resp.KindString && p.Known:
		p.Token, _ = ids.SplitValue(string(r.Text))
	case r.Kind == resp.KindIntegers && len(r.Ints) == 4:
		*p = Place{
			Known: true, Ticket: r.Ints[0], Before: r.Ints[1], Ahead: int(r.Ints[2]),
			Free: r.Ints[3] == -2,
		}
		if left := r.Ints[3]; left >= 0 {
			p.Until = time.Now().Add(time.Duration(left) * time.Millisecond)
		}
	}
}

// OnEnd takes the end of the trip.
func (q *query) OnEnd(end trip.End) { q.ended <- end }

package line

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/lockpipe/lockpipe/script"
)

const (
	// placeTTL is how long a place lasts that nobody renews. A client that waits renews it at least
	// each second.
	placeTTL = "3000"
	// maxPlaces is how many clients are in one line at most. The others ask again and again.
	maxPlaces = "1000"
	// turnTTL is how long the key is there that says that a ticket has left. Who asks for it has
	// just learned of the ticket.
	turnTTL = "1000"
)

// lastByte is the index of the last byte of a value that is read. A whole value may be larger than
// a reply may be.
var lastByte = strconv.Itoa(resp.MaxText - 1)

// makeTrip asks the node, and sets the answers that it gives. The others stay zero.
func (n *Node) makeTrip(asked []*question, answers []Place) {
	if n.link.AwaitConnected(context.Background()) != nil {
		return
	}
	sent := n.counts.FlushStarted(len(asked))
	if lost := n.send(asked, answers, false); lost {
		n.send(asked, answers, true)
	}
	n.counts.FlushEnded(time.Since(sent))
}

// send sets the answers. lost: the node did not have the scripts; load loads them.
func (n *Node) send(asked []*question, answers []Place, load bool) (lost bool) {
	conn := n.link.Verified()
	if conn == nil {
		return false
	}
	q := n.newQuery(asked, answers, load)
	if conn.Trips.Enqueue(&q.trip) != nil {
		return false
	}
	conn.Trips.Flush()
	if end := <-q.ended; end != trip.Answered || !n.link.StillValid(conn) {
		clear(answers)
		return false
	}
	return q.lost
}

// query is one trip.
type query struct {
	trip    trip.Trip
	node    string
	answers []Place
	of      []int // for each command, the answer that its reply is about; negative: none
	lost    bool  // the node does not have a script
	ended   chan trip.End
}

func (n *Node) newQuery(asked []*question, answers []Place, load bool) *query {
	q := &query{node: n.link.Name(), answers: answers, ended: make(chan trip.End, 1)}
	var text []byte
	add := func(answer int, command ...string) {
		text, q.of = resp.AppendCommand(text, command...), append(q.of, answer)
	}
	if load {
		add(-1, "SCRIPT", "LOAD", script.Line.Source)
		add(-1, "SCRIPT", "LOAD", script.Leave.Source)
	}
	for i, a := range asked {
		key, line := n.prefix+a.Key, n.prefix+ids.LineKey+a.Key
		ticket := strconv.FormatInt(a.Ticket, 10)
		switch {
		case a.watch != nil:
			// The first command is for the second alone. Nothing comes between the commands of a
			// trip. A server that took CLIENT TRACKING in the handshake reports the next change.
			// Another server answers with an error, and still says the rest.
			key, answers[i].Silent = a.watch.name, true
			add(i, "CLIENT", "CACHING", "YES")
			add(i, "PTTL", key)
		case a.Answered == nil:
			turn := n.prefix + ids.TurnOf(a.Key, a.Ticket)
			add(-1, "EVALSHA", script.Leave.SHA, "2", line, turn, n.client, ticket, turnTTL,
				n.grace)
			continue
		default:
			add(i, "EVALSHA", script.Line.SHA, "2", line, key, n.client, ticket, placeTTL,
				maxPlaces, n.grace)
		}
		add(i, "GETRANGE", key, "0", lastByte)
	}
	q.trip = trip.Trip{Bytes: text, Commands: len(q.of), Receiver: q}
	return q
}

// OnReply takes one reply.
func (q *query) OnReply(i int, r resp.Reply) {
	if r.Kind == resp.KindError && strings.HasPrefix(string(r.Text), "NOSCRIPT") {
		q.lost = true
	}
	if q.of[i] < 0 {
		return
	}
	p := &q.answers[q.of[i]]
	switch {
	case r.Kind == resp.KindStatus: // of CLIENT CACHING
		p.Silent = false
	case r.Kind == resp.KindInteger:
		p.Known, p.Node = true, q.node
		p.lasts(r.Int)
	case r.Kind == resp.KindIntegers && len(r.Ints) == 4:
		*p = Place{
			Known: true, Ticket: r.Ints[0], Before: r.Ints[1], Ahead: int(r.Ints[2]), Node: q.node,
		}
		p.lasts(r.Ints[3])
	case r.Kind == resp.KindString && p.Known:
		p.Token, _ = ids.SplitValue(string(r.Text))
	}
}

// OnEnd takes the end of the trip.
func (q *query) OnEnd(end trip.End) { q.ended <- end }

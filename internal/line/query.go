package line

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
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

// loads are the commands that load the scripts.
var loads = [][]string{
	{"SCRIPT", "LOAD", script.Line.Source}, {"SCRIPT", "LOAD", script.Leave.Source},
}

// makeTrip asks the node, and sets the answers that it gives. The others stay zero.
func (n *Node) makeTrip(asked []*Ask, answers []Place) {
	ctx := context.Background()
	if n.link.AwaitConnected(ctx) != nil {
		return
	}
	conn := n.link.Verified()
	if conn == nil {
		return
	}
	var commands [][]string
	ends := make([]int, len(asked)) // of the commands of each
	for i, a := range asked {
		commands = append(commands, n.commands(a)...)
		ends[i] = len(commands)
	}
	sent := n.counts.FlushStarted(len(asked))
	replies, err := conn.Trips.Do(ctx, commands...)
	if err == nil && slices.ContainsFunc(replies, lacksScript) {
		replies, err = conn.Trips.Do(ctx, slices.Concat(loads, commands)...)
		replies = replies[min(len(loads), len(replies)):]
	}
	n.counts.Latency.Observe(time.Since(sent))
	if err != nil || !n.link.StillValid(conn) {
		return
	}
	from := 0
	for i, to := range ends {
		p := Place{Node: n.link.Name(), Silent: asked[i].watches}
		for _, r := range replies[from:to] {
			p.take(r)
		}
		if from = to; p.Known {
			answers[i] = p
		}
	}
}

// lacksScript reports whether this is the reply of a server that does not have a script.
func lacksScript(r resp.Value) bool {
	return r.Kind == '-' && strings.HasPrefix(r.Text, "NOSCRIPT")
}

// commands returns what the node is sent.
func (n *Node) commands(a *Ask) [][]string {
	line, key, ticket := n.prefix+ids.LineKey+a.Key, n.prefix+a.Key, strconv.FormatInt(a.Ticket, 10)
	switch {
	case a.watches:
		// The first command is for the second alone. Nothing comes between the commands of a trip.
		// A server that took CLIENT TRACKING in the handshake reports the next change. Another
		// server answers with an error, and still says the rest.
		name := n.watched(a.Key, a.Ticket)
		return [][]string{
			{"CLIENT", "CACHING", "YES"}, {"PTTL", name}, {"GETRANGE", name, "0", resp.LastByte},
		}
	case a.Answered == nil:
		return [][]string{{
			"EVALSHA", script.Leave.SHA, "2", line, n.watched(a.Key, a.Ticket), n.client, ticket,
			turnTTL, n.grace,
		}}
	}
	return [][]string{{
		"EVALSHA", script.Line.SHA, "2", line, key, n.client, ticket, placeTTL, maxPlaces, n.grace,
	}, {"GETRANGE", key, "0", resp.LastByte}}
}

// watched returns the name of a key, or of what tells that a ticket in its line has left.
func (n *Node) watched(key string, ticket int64) string {
	if ticket == 0 {
		return n.prefix + key
	}
	return n.prefix + ids.TurnOf(key, ticket)
}

// take takes one reply.
func (p *Place) take(r resp.Value) {
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	switch {
	case r.Kind == '+': // of CLIENT CACHING
		p.Silent = false
	case r.Kind == ':':
		p.Known = true
		p.lasts(number(r.Text))
	case r.Kind == '*' && len(r.Items) == 4:
		of := r.Texts()
		p.Known, p.Ticket, p.Before = true, number(of[0]), number(of[1])
		p.Ahead = int(number(of[2]))
		p.lasts(number(of[3]))
	case r.Kind == '$' && p.Known:
		p.Token, _ = ids.SplitValue(r.Text)
	}
}

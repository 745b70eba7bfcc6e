// Package holders asks nodes who has keys: which token is in their value, and for how long. A node
// asks that for its watches, and Asker asks all nodes for a person.
package holders

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
)

// Answer is what a node says of one key.
type Answer struct {
	// TTL is in milliseconds: -1 for a key that never ends, -2 for one that is not there. It is
	// Known if there was a reply that makes sense.
	TTL   int64
	Known bool
	// Token is that of the value. Of a value of another client it is the begin, at least as much as
	// a token has. It is "" if the key is not there, has no string, or may not be read.
	Token string
	// Node is the character of the node in the value, in the order of nodes of the holder; 0 for
	// another client's value.
	Node byte
	// Waiting is how many places the key's line has, if that was asked for.
	Waiting int
	// Notifies says that the node will report the next change of the key.
	Notifies bool
	// Err is an error with which the server replied, as for a user who may not ask.
	Err error
}

// Query asks a node about keys by one trip. It reads only the begin of each value: a whole one may
// be larger than a reply may be.
type Query struct {
	trip    trip.Trip
	perKey  int // commands
	begin   int // the first of the commands for each key
	answers []Answer
	ended   chan trip.End
}

// The commands for each key. CLIENT CACHING is for the next command only, and nothing comes between
// the commands of a trip. Between two commands of rueidis a trip may.
const (
	commandCaching = iota // only to be notified
	commandTTL
	commandToken
	commandLine // only to be told the length of the line
	commands
)

// lastByte is the index of the last byte of a value that is read.
var lastByte = strconv.Itoa(resp.MaxText - 1)

// NewQuery returns a query about keys, given with their prefix, and about the lines for them; nil:
// not about lines. notify asks the node to report the next change of each key. A server that took
// CLIENT TRACKING in the handshake reports it. One without it answers CLIENT CACHING with an error,
// and still says the rest.
func NewQuery(keys, lines []string, notify bool) *Query {
	q := &Query{
		begin: commandTTL, answers: make([]Answer, len(keys)), ended: make(chan trip.End, 1),
	}
	end := commandLine
	if len(lines) > 0 {
		end = commands
	}
	if notify {
		q.begin = commandCaching
	}
	q.perKey = end - q.begin
	var text []byte
	for i, key := range keys {
		if notify {
			text = resp.AppendCommand(text, "CLIENT", "CACHING", "YES")
		}
		text = resp.AppendCommand(text, "PTTL", key)
		text = resp.AppendCommand(text, "GETRANGE", key, "0", lastByte)
		if len(lines) > 0 {
			text = resp.AppendCommand(text, "ZCARD", lines[i])
		}
	}
	q.trip = trip.Trip{Parts: [][]byte{text}, Commands: q.perKey * len(keys), Receiver: q}
	return q
}

// Run sends the query, once, and returns the answer for each key. It returns nil if the connection
// ended or ctx ended before.
func (q *Query) Run(ctx context.Context, conn *trip.Conn) []Answer {
	if conn.Enqueue(&q.trip) != nil {
		return nil
	}
	conn.Flush()
	select {
	case end := <-q.ended:
		if end == trip.Answered {
			return q.answers
		}
	case <-ctx.Done():
	}
	return nil
}

// OnReply takes one reply.
func (q *Query) OnReply(i int, r resp.Reply) {
	a := &q.answers[i/q.perKey]
	switch command := i%q.perKey + q.begin; {
	case command == commandCaching:
		a.Notifies = r.Kind == resp.KindStatus
	case command == commandLine:
		a.Waiting = int(r.Int) // 0 if the client may not ask for that
	case r.Kind == resp.KindError:
		// A key of another type is held, by nobody known.
		if text := string(r.Text); !strings.HasPrefix(text, "WRONGTYPE ") {
			a.Err = errors.New(strings.TrimPrefix(text, "ERR "))
		}
	case command == commandTTL && r.Kind == resp.KindInteger:
		a.TTL, a.Known = r.Int, true
	case command == commandToken && r.Kind == resp.KindString:
		a.Token, a.Node = ids.SplitValue(string(r.Text))
	}
}

// OnEnd takes the end of the trip.
func (q *Query) OnEnd(end trip.End) { q.ended <- end }

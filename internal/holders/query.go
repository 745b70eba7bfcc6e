// Package holders asks all nodes for a person who has keys: which token is in their value, and for
// how long.
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
	// Err is an error with which the server replied, as for a user who may not ask.
	Err error
}

// Query asks a node about keys by one trip. It reads only the begin of each value: a whole one may
// be larger than a reply may be.
type Query struct {
	trip    trip.Trip
	perKey  int // commands
	answers []Answer
	ended   chan trip.End
}

// The commands for each key.
const (
	commandTTL = iota
	commandToken
	commandLine // only to be told the length of the line
	commands
)

// lastByte is the index of the last byte of a value that is read.
var lastByte = strconv.Itoa(resp.MaxText - 1)

// NewQuery returns a query about keys, given with their prefix, and about the lines for them; nil:
// not about lines. On the node, all of them are behind tag.
func NewQuery(tag string, keys, lines []string) *Query {
	q := &Query{
		perKey: commandLine, answers: make([]Answer, len(keys)), ended: make(chan trip.End, 1),
	}
	if len(lines) > 0 {
		q.perKey = commands
	}
	var text []byte
	for i, key := range keys {
		key = tag + key
		text = resp.AppendCommand(text, "PTTL", key)
		text = resp.AppendCommand(text, "GETRANGE", key, "0", lastByte)
		if len(lines) > 0 {
			text = resp.AppendCommand(text, "ZCARD", tag+lines[i])
		}
	}
	q.trip = trip.Trip{Bytes: text, Commands: q.perKey * len(keys), Receiver: q}
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
	switch command := i % q.perKey; {
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

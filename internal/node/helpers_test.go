package node

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// fake is an operation whose owner is the test.
type fake struct {
	op       Op
	skip     error     // why it is not sent
	until    time.Time // when its keys have expired; zero: not known
	recorded []Answer
}

func (o *fake) Op() *Op                         { return &o.op }
func (o *fake) Skip(int, bool, time.Time) error { return o.skip }
func (o *fake) Record(_ int, r Answer)          { o.recorded = append(o.recorded, r) }

func (o *fake) Expired(_ int, now time.Time) bool {
	return !o.until.IsZero() && !now.Before(o.until)
}

// wanting returns an operation for these keys.
func wanting(k Kind, ttl time.Duration, keys ...string) *fake {
	set := new(ids.Keys)
	set.Init("", keys, "t"+keys[0], "")
	o := &fake{op: Op{Keys: set, Kind: k, Sent: time.Now()}}
	if k != Release {
		o.op.TTL = strconv.FormatInt(ttl.Milliseconds(), 10)
	}
	return o
}

// newNode returns a node without a connection.
func newNode() *Node {
	n, err := New(Config{
		Link: link.Config{
			Endpoint: &endpoint.Endpoint{Name: "node"}, MaxTTL: time.Minute,
			Peers:  guard.NewPeers(1, nil),
			Logger: slog.New(slog.DiscardHandler),
			Fleet:  fleet.New(fleet.Config{Logger: slog.New(slog.DiscardHandler)}),
		},
		Group: new(Group), StateChanged: func(link.State) {},
	})
	if err != nil {
		panic(err)
	}
	return n
}

// newFlushOf returns a flush that comes from outside of the log.
func newFlushOf(n *Node, operations ...*fake) *Flush {
	f := n.NewFlush(nil)
	for _, o := range operations {
		f.Add(o, true)
	}
	return f
}

// built returns a flush whose commands are made, for this connection.
func built(n *Node, conn *link.Conn, operations ...*fake) *Flush {
	f := newFlushOf(n, operations...)
	f.build(conn)
	return f
}

func integerReply(n int64) resp.Reply { return resp.Reply{Kind: ':', Int: n} }

func errorReply(text string) resp.Reply {
	return resp.Reply{Kind: '-', Text: []byte(text)}
}

// answeredBy returns what sends a flush to a node that answers as the function does.
func answeredBy(server func(operations []Operation, answers []Answer)) func(*Flush) {
	return func(f *Flush) {
		f.SendTo(func(done func()) {
			server(f.Ops, f.Answers)
			go done()
		})
	}
}

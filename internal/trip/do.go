package trip

import (
	"cmp"
	"context"
	"net"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// asked is the trip of one Do.
type asked struct {
	trip    Trip
	replies []resp.Value
	ended   chan End // of capacity 1
}

// Do sends commands in one piece, and returns the reply to each. The error is why not all replies
// came. Only what is rare goes this way.
func (c *Conn) Do(ctx context.Context, commands ...[]string) ([]resp.Value, error) {
	a := &asked{ended: make(chan End, 1)}
	a.trip = Trip{Commands: len(commands), Receiver: a}
	for _, words := range commands {
		a.trip.Bytes = resp.AppendCommand(a.trip.Bytes, words...)
	}
	if err := c.Enqueue(&a.trip); err != nil {
		return nil, err
	}
	c.Flush()
	select {
	case end := <-a.ended:
		if end != Answered {
			return nil, cmp.Or(c.Cause(), net.ErrClosed)
		}
		return a.replies, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// OnReply takes the reply to one command.
func (a *asked) OnReply(_ int, r resp.Reply) { a.replies = append(a.replies, r.Value()) }

// OnEnd takes the end of the trip.
func (a *asked) OnEnd(end End) { a.ended <- end }

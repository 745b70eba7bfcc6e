package trip_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// owned is a trip of the random test. Its commands are TRIP id i.
type owned struct {
	trip.Trip
	id    int
	count int // of replies
	ends  chan trip.End
}

func (o *owned) OnReply(i int, r resp.Reply) {
	if i != o.count || r.Kind != '*' || r.Ints[0] != int64(o.id) ||
		r.Ints[1] != int64(i) {
		panic(fmt.Sprint("a reply to another trip: ", r, " for ", o.id, " ", i))
	}
	o.count++
}

func (o *owned) OnEnd(end trip.End) { o.ends <- end }

func newOwned(id, commands int) *owned {
	o := &owned{id: id, ends: make(chan trip.End, 2)}
	o.Receiver, o.Commands = o, commands
	for i := range commands {
		o.Bytes = resp.AppendCommand(o.Bytes, "TRIP", fmt.Sprint(id), fmt.Sprint(i))
	}
	return o
}

// tape is what a server has seen: the id of each command of a trip.
type tape struct {
	seen []string
	left int // commands until the server ends the connection
}

// serve replies until the connection ends, with pushes between the replies.
func (s *tape) serve(conn net.Conn, random *rand.Rand) {
	resptest.Serve(conn, func(words []string) string {
		reply := "+PONG\r\n"
		if words[0] == "TRIP" {
			s.seen = append(s.seen, words[1])
			reply = fmt.Sprintf("*2\r\n:%s\r\n:%s\r\n", words[1], words[2])
		}
		if random.IntN(3) == 0 {
			reply = pushed + reply
		}
		if s.left--; s.left <= 0 {
			_ = conn.Close()
		}
		return reply
	})
}

// client does what rueidis does: it writes what comes in pieces, and reads what comes.
type client struct {
	conn    *trip.Conn
	toWrite chan []byte
}

func (c *client) write(random *rand.Rand) {
	for p := range c.toWrite {
		for len(c.toWrite) > 0 && len(p) < 100 {
			p = append(p, <-c.toWrite...)
		}
		for len(p) > 0 {
			k := 1 + random.IntN(len(p))
			if random.IntN(2) == 0 {
				k = len(p)
			}
			if _, err := c.conn.Write(p[:k]); err != nil {
				_ = c.conn.Close()
				for range c.toWrite { // until all senders are done
				}
				return
			}
			p = p[k:]
		}
	}
}

func (c *client) receive() {
	_, _ = io.Copy(io.Discard, c.conn)
	_ = c.conn.Close()
}

// generation is one connection with all that uses it.
func generation(t *testing.T, random *rand.Rand) {
	t.Helper()
	near, far := net.Pipe()
	server := &tape{left: 1 + random.IntN(60)}
	c := &client{
		conn:    trip.NewConn(near, func(resp.Value) {}),
		toWrite: make(chan []byte),
	}
	seeds := []uint64{random.Uint64(), random.Uint64(), random.Uint64()}
	var inside, senders sync.WaitGroup
	inside.Go(func() { server.serve(far, rand.New(rand.NewPCG(seeds[0], 1))) })
	inside.Go(func() { c.write(rand.New(rand.NewPCG(seeds[1], 1))) })
	inside.Go(c.receive)

	var enqueuing sync.Mutex
	var order []*owned
	for range 8 {
		sizes := []int{1 + random.IntN(4), 1 + random.IntN(4), 1 + random.IntN(4)}
		senders.Go(func() {
			for _, size := range sizes {
				enqueuing.Lock()
				o := newOwned(len(order), size)
				err := c.conn.Enqueue(&o.Trip)
				if err == nil {
					order = append(order, o)
				}
				enqueuing.Unlock()
				if err != nil {
					return
				}
				c.conn.Flush()
				o.ends <- <-o.ends
			}
		})
	}
	for range 2 {
		senders.Go(func() {
			for range 5 {
				c.toWrite <- append([]byte(nil), pingBytes...)
			}
		})
	}
	if random.IntN(2) == 0 {
		senders.Go(func() { _ = c.conn.Close() })
	}
	senders.Wait()
	close(c.toWrite)
	_ = c.conn.Close()
	inside.Wait()
	check(t, order, server.seen)
}

// check compares how the trips ended with what the server has seen.
func check(t *testing.T, order []*owned, seen []string) {
	t.Helper()
	for _, o := range order {
		end := <-o.ends
		require.Empty(t, o.ends, "two ends")
		got := 0
		for len(seen) > 0 && seen[0] == fmt.Sprint(o.id) {
			seen = seen[1:]
			got++
		}
		require.LessOrEqual(t, o.count, got)
		switch end {
		case trip.Answered:
			require.Equal(t, o.Commands, o.count)
		case trip.Unsent:
			require.Zero(t, got)
		default:
			require.LessOrEqual(t, got, o.Commands)
			require.Less(t, o.count, o.Commands)
		}
	}
	require.Empty(t, seen, "the server has seen trips in another order than that of Enqueue")
}

// The goal: with many owners, plain commands, pushes, and an end of the connection at any time from
// either side, each trip ends once, and as it should.
func TestConn_EveryTripEndsOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 800 {
		generation(t, random)
	}
}

package trip_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// repeating takes everything, and sends the same at each Read.
type repeating struct {
	net.Conn
	reply string
}

func (c *repeating) Write(p []byte) (int, error) { return len(p), nil }
func (c *repeating) Read(p []byte) (int, error)  { return copy(p, c.reply), nil }

func checked(reply string) *trip.Conn {
	return trip.NewConn(&repeating{reply: reply}, func(resp.Value) {})
}

// The goal: bytes that can't be followed are not sent, since the count of commands would be wrong
// from then on.
func TestConn_SendsOnlyArraysOfStrings(t *testing.T) {
	for _, bad := range []string{
		"PING\r\n", "*0\r\n", "*-1\r\n", "*1\r\n*1\r\n", "$1\r\nx\r\n",
		"*1\r\n$-1\r\n", "*x\r\n", "*1\r\n:1\r\n", "*\r\n", "*1\r\n+x\r\n",
	} {
		n, err := checked("").Write([]byte(bad))
		require.Zero(t, n)
		require.ErrorContains(t, err, "not an array of strings", "%q", bad)
	}
}

// The goal: bytes before a protocol error are passed on, and nothing behind it. The
// connection stays dead.
func TestConn_EndsAtAProtocolError(t *testing.T) {
	c := checked("+OK\r\n:1\r\n+OK\r\n")
	ping := resp.AppendCommand(nil, "PING")
	_, err := c.Write(ping)
	require.NoError(t, err)
	p := make([]byte, 100)
	n, err := c.Read(p)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(p[:n]))
	_, err = c.Read(p)
	require.EqualError(t, err, "protocol error: a reply of type ':' that no command asked for")
	_, again := c.Write(ping)
	require.NoError(t, again)
	n, again = c.Read(p)
	require.Zero(t, n)
	require.Equal(t, err, again)
	require.Equal(t, err, c.Cause())
}

// The goal: what is no reply at all is reported as such, asked for or not.
func TestConn_ReportsAnUnknownTypeFirst(t *testing.T) {
	_, err := checked("HTTP/1.1 400 Bad Request\r\n").Read(make([]byte, 100))
	require.ErrorContains(t, err, "unknown type 'H'")
}

// The goal: what the client writes takes memory once, for the trip that carries it.
func TestConn_AllocatesTheTripOfAWrite(t *testing.T) {
	c := checked(":128\r\n")
	flush, in := typicalFlush(), make([]byte, 1000)
	require.Equal(t, 1, int(testing.AllocsPerRun(100, func() {
		if _, err := c.Write(flush); err != nil {
			panic(err)
		}
		if _, err := c.Read(in); err != nil {
			panic(err)
		}
	})))
}

// typicalFlush is a script call for 128 locks.
func typicalFlush() []byte {
	args := []string{"EVALSHA", strings.Repeat("5", 40), "128"}
	for i := range 128 {
		args = append(args, fmt.Sprintf("lock:customer:%d", i))
	}
	args = append(args, "10000")
	for range 255 {
		args = append(args, strings.Repeat("t", 27))
	}
	return resp.AppendCommand(nil, args...)
}

func BenchmarkConn(b *testing.B) {
	one := resp.AppendCommand(nil, "SET", "lock:customer:1", strings.Repeat("t", 27), "NX", "PX",
		"10000")
	for name, flush := range map[string][]byte{"128sets": typicalFlush(), "one": one} {
		b.Run(name, func(b *testing.B) {
			c, in := checked(":128\r\n"), make([]byte, 1<<12)
			b.ReportAllocs()
			b.SetBytes(int64(len(flush)))
			for b.Loop() {
				if _, err := c.Write(flush); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Read(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// ender takes the end of a trip.
type ender struct {
	replies int
	ended   []trip.End
}

func (e *ender) OnReply(int, resp.Reply) { e.replies++ }
func (e *ender) OnEnd(end trip.End)      { e.ended = append(e.ended, end) }

// The goal: a push that says that the server was flushed is handled before all that is behind it,
// and behind all that is before it. Replies to trips and pushes alone end no Read.
func TestConn_HandlesAPushInItsPlace(t *testing.T) {
	const push = ">2\r\n$10\r\ninvalidate\r\n_\r\n"
	for _, before := range []string{"", ":1\r\n"} {
		for _, piece := range []int{1, 1000} {
			stream := before + push + ":2\r\n:3\r\n"[len(before):] + "+PONG\r\n"
			below := &pieces{stream: []byte(stream), next: func() int { return piece }}
			var e ender
			pushes := 0
			c := trip.NewConn(below, func(v resp.Value) {
				pushes++
				require.Equal(t, len(before)/4, e.replies)
				require.Empty(t, e.ended)
				require.Equal(t, "invalidate", v.Items[0].Text)
				require.True(t, v.Items[1].Null)
			})
			set := resp.AppendCommand(nil, "SET", "k", "v")
			both := trip.Trip{Bytes: append(set, set...), Commands: 2, Receiver: &e}
			require.NoError(t, c.Enqueue(&both))
			c.Flush()
			_, err := c.Write(pingBytes)
			require.NoError(t, err)
			p := make([]byte, 100)
			n, err := c.Read(p)
			require.NoError(t, err)
			require.Equal(t, "+PONG\r\n", string(p[:n]))
			require.Equal(t, []trip.End{trip.Answered}, e.ended)
			require.Equal(t, 1, pushes)
		}
	}
}

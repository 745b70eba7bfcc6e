package trip_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

var pingBytes = resp.AppendCommand(nil, "PING")

// counting counts what a trip has become.
type counting struct{ replies, ints, ended int }

func (r *counting) OnReply(_ int, reply resp.Reply) {
	r.replies++
	r.ints += len(reply.Ints)
}

func (r *counting) OnEnd(end trip.End) {
	if end == trip.Answered {
		r.ended++
	}
}

// rounds are trips with their replies.
var rounds = []struct {
	name     string
	reply    string
	commands int
}{
	{"512 OK", strings.Repeat("+OK\r\n", 512), 512},
	{"2 integers", ":128\r\n:128\r\n", 2},
	{"501 fences", "*501\r\n" + strings.Repeat(":1234567\r\n", 501), 1},
}

// round sends one trip and reads its replies, and with them that to a plain command: a Read does
// not return before.
func round(tb testing.TB, reply string, commands int) func() {
	c := trip.NewConn(&repeating{reply: reply + "+PONG\r\n"}, func(resp.Value) {})
	var r counting
	t := &trip.Trip{Bytes: pingBytes, Commands: commands, Receiver: &r}
	p := make([]byte, 1<<12)
	return func() {
		before := r
		if err := c.Enqueue(t); err != nil {
			tb.Fatal(err)
		}
		c.Flush()
		if _, err := c.Write(pingBytes); err != nil {
			tb.Fatal(err)
		}
		n, err := c.Read(p)
		if err != nil || string(p[:n]) != "+PONG\r\n" || r.ended != before.ended+1 ||
			r.replies != before.replies+commands {
			tb.Fatal(n, err, r)
		}
	}
}

// The goal: a trip allocates nothing. The plain command behind it takes memory once.
func TestConn_AllocatesNothingForATrip(t *testing.T) {
	for _, r := range rounds {
		run := round(t, r.reply, r.commands)
		run()
		require.Equal(t, 1, int(testing.AllocsPerRun(100, run)), r.name)
	}
}

func BenchmarkConn_Trip(b *testing.B) {
	for _, r := range rounds {
		b.Run(fmt.Sprint(r.name), func(b *testing.B) {
			run := round(b, r.reply, r.commands)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

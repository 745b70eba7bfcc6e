package node

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// said is a connection whose server says something after the first Write, and then ends it. It
// takes everything.
type said struct {
	net.Conn
	text    *strings.Reader
	written chan struct{} // of capacity 1
}

func (c *said) Write(p []byte) (int, error) {
	link.Notify(c.written)
	return len(p), nil
}

func (c *said) Read(p []byte) (int, error) {
	<-c.written
	defer link.Notify(c.written)
	return c.text.Read(p)
}

func (c *said) Close() error {
	link.Notify(c.written)
	return nil
}

// saying returns a connection to such a server. Somebody reads from it, as rueidis does. wait
// returns when that has ended.
func saying(set link.CommandSet, text string) (c *link.Conn, wait func()) {
	c = new(link.Conn)
	c.Allow(set)
	server := &said{text: strings.NewReader(text), written: make(chan struct{}, 1)}
	c.Trips = trip.NewConn(server, func(resp.Value) {})
	var reader sync.WaitGroup
	reader.Go(func() {
		_, _ = io.Copy(io.Discard, c.Trips)
		_ = c.Trips.Close()
	})
	return c, func() {
		_ = c.Trips.Close()
		reader.Wait()
	}
}

// ended takes the end of a trip in place of its flush, which would be handled.
type ended chan trip.End

// receiver is a flush that does not hear of its end.
type receiver struct {
	*Flush
	ended
}

func (r receiver) OnEnd(end trip.End) { r.ended <- end }

// exchange sends the commands of a flush, and takes the end.
func (e ended) exchange(f *Flush) {
	f.trip.Receiver = receiver{f, e}
	f.node.exchange(f)
	if <-e != trip.Answered {
		f.failFrom(f.replied, Answer{Broken: true, Err: ErrConnectionLost})
	}
	f.trip.Receiver = f
}

// FuzzReplies lets what decodes the replies to operations have whatever passes the check of the
// protocol: to operations of every kind, made for every set of commands, and to what is sent once
// more. Each operation has a vote or a reason for none, and without a reply nobody grants.
func FuzzReplies(f *testing.F) {
	// Two releases, two extensions, a SET and a script, of which one key is held by another.
	const quiet = ":1\r\n*3\r\n:0\r\n:1\r\n:2\r\n$-1\r\n*3\r\n:0\r\n:1\r\n:3\r\n"
	const noScript = "-NOSCRIPT No matching script.\r\n"
	for set := range byte(link.CommandSets) {
		f.Add(set, quiet, "")
		f.Add(set, strings.Repeat(":1\r\n", 20), "")
		f.Add(set, strings.Repeat(":0\r\n", 20), strings.Repeat(":1\r\n", 20))
		f.Add(set, strings.Repeat(noScript, 20), strings.Repeat("+OK\r\n", 4)+quiet)
		f.Add(set, strings.Repeat("-NOPERM no\r\n", 20), quiet)
		f.Add(set, strings.Repeat("-ERR unknown command\r\n", 20), quiet)
		for stream := range resptest.Ordinary {
			f.Add(set, stream+stream+stream+stream, stream)
		}
		for stream := range resptest.Hostile {
			f.Add(set, quiet+stream[:min(len(stream), 1000)], "")
		}
	}
	f.Fuzz(func(t *testing.T, set byte, first, second string) {
		n := newNode()
		usable := link.CommandSet(set) % link.CommandSets
		conn, wait := saying(usable, first)
		defer wait()
		then, waitThen := saying(usable, second)
		defer waitThen()
		var operations []*fake
		for _, k := range []Kind{Release, Extend, Acquire} {
			for _, keys := range [][]string{{"k"}, {"a", "b", "c"}, {"l"}} {
				operations = append(operations, wanting(k, time.Minute, keys...))
			}
		}
		flush, ends := newFlushOf(n, operations...), make(ended, 1)
		var round Round
		round.Shared[usable] = n.group.newEncoding(usable, false)
		for i, o := range operations {
			round.Shared.Add(i, &o.op)
		}
		round.Shared.End()
		flush.Reading = new(reading)
		round.Size = len(operations)
		flush.AddRound(&round)
		n.order.Lock()
		flush.build(conn)
		ends.exchange(flush)
		replied := flush.replied
		if len(flush.again) > 0 {
			n.order.Lock()
			flush.buildRetry()
			flush.conn = then
			ends.exchange(flush)
			replied += flush.replied
		}
		for i, a := range flush.Answers {
			require.True(t, a.Vote != Unknown || a.Err != nil, "unknown for no reason")
			require.Less(t, int(a.KeyIndex), operations[i].op.Keys.Len())
			if replied == 0 {
				require.Equal(t, Unknown, a.Vote)
			}
		}
		n.recycle(flush)
	})
}

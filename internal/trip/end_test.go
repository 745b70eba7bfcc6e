package trip_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// atEnd notifies of the end of a trip.
type atEnd struct {
	ends    chan trip.End
	replies chan string
}

func newTrip(words ...string) (*trip.Trip, *atEnd) {
	r := &atEnd{make(chan trip.End, 9), make(chan string, 99)}
	t := &trip.Trip{Receiver: r, Commands: len(words)}
	for _, w := range words {
		t.Bytes = resp.AppendCommand(t.Bytes, w)
	}
	return t, r
}

func (r *atEnd) OnReply(_ int, reply resp.Reply) { r.replies <- text(reply) }
func (r *atEnd) OnEnd(end trip.End)              { r.ends <- end }

// ended checks that the trip has this end and no other.
func (r *atEnd) ended(t *testing.T, want trip.End) {
	t.Helper()
	select {
	case end := <-r.ends:
		require.Equal(t, want, end)
	case <-time.After(10 * time.Second):
		require.Fail(t, "no end")
	}
	r.open(t)
}

// open checks that the trip has no end yet.
func (r *atEnd) open(t *testing.T) {
	t.Helper()
	select {
	case end := <-r.ends:
		require.Fail(t, "an end", "%v", end)
	default:
	}
}

// stuck is a connection whose server replies before the Write returns, which waits for unblock or
// for Close.
type stuck struct {
	net.Conn
	written chan []byte
	unblock chan struct{}
	replies chan string
	closed  chan struct{}
	once    sync.Once
}

func newStuck() *stuck {
	return &stuck{
		written: make(chan []byte, 9), unblock: make(chan struct{}),
		replies: make(chan string, 9), closed: make(chan struct{}),
	}
}

func (c *stuck) Write(p []byte) (int, error) {
	c.written <- p
	select {
	case <-c.unblock:
		return len(p), nil
	case <-c.closed:
		return 1, net.ErrClosed
	}
}

func (c *stuck) Read(p []byte) (int, error) {
	select {
	case text := <-c.replies:
		return copy(p, text), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *stuck) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// inBackground runs a function, and returns a channel that is closed when it has returned.
func inBackground(run func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	return done
}

// read reads in the background until the connection ends, and passes on what comes.
func read(c *trip.Conn) <-chan string {
	got := make(chan string, 99)
	go func() {
		defer close(got)
		for {
			p := make([]byte, 99)
			n, err := c.Read(p)
			if n > 0 {
				got <- string(p[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return got
}

// enqueueAll enqueues a trip for each word.
func enqueueAll(t *testing.T, c *trip.Conn, words ...string) (trips []*trip.Trip, all []*atEnd) {
	t.Helper()
	for _, w := range words {
		next, r := newTrip(strings.Fields(w)...)
		require.NoError(t, c.Enqueue(next))
		trips, all = append(trips, next), append(all, r)
	}
	return trips, all
}

// senders are the two ways in which a trip is sent: by its owner, and with what the client writes.
var senders = map[string]func(c *trip.Conn){
	"Flush": func(c *trip.Conn) { c.Flush() },
	"Write": func(c *trip.Conn) { _, _ = c.Write(pingBytes) },
}

// The goal: the owner gets the bytes back only when they were written, also if the reply was
// faster. The commands are counted before they are sent.
func TestConn_ATripEndsAfterItsWrite(t *testing.T) {
	for name, send := range senders {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newStuck()
				c := trip.NewConn(below, func(resp.Value) {})
				defer func() { _ = c.Close() }()
				_, r := enqueueAll(t, c, "A B")
				read(c)
				done := inBackground(func() { send(c) })
				<-below.written
				below.replies <- ":1\r\n:2\r\n"
				synctest.Wait()
				require.Len(t, r[0].replies, 2)
				r[0].open(t)
				close(below.unblock)
				<-done
				r[0].ended(t, trip.Answered)
			})
		})
	}
}

// slowClose is a connection whose Write returns only when it is let to, also after Close.
type slowClose struct{ *stuck }

func (c slowClose) Write(p []byte) (int, error) {
	c.written <- p
	<-c.unblock
	return 0, errors.New("cut off")
}

// The goal: Close waits for nothing, and the trips of a write end with it. One that was answered
// before is answered, and a trip behind it was not sent. All that wait for their turn to write
// return.
func TestConn_ATripOfAWriteEndsAfterCloseAndTheWrite(t *testing.T) {
	for name, send := range senders {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := slowClose{newStuck()}
				c := trip.NewConn(below, func(resp.Value) {})
				_, received := enqueueAll(t, c, "A", "A")
				read(c)
				done := inBackground(func() { send(c) })
				<-below.written
				_, more := enqueueAll(t, c, "A", "A")
				flushed := inBackground(c.Flush)
				written := inBackground(func() {
					_, err := c.Write(pingBytes)
					require.ErrorIs(t, err, net.ErrClosed)
				})
				below.replies <- ":1\r\n"
				synctest.Wait()
				require.NoError(t, c.Close())
				received[0].open(t)
				received[1].open(t)
				more[0].ended(t, trip.Unsent)
				more[1].ended(t, trip.Unsent)
				close(below.unblock)
				<-done
				<-flushed
				<-written
				received[0].ended(t, trip.Answered)
				received[1].ended(t, trip.Broken)
				more[0].open(t)
				require.NoError(t, c.Cause(), "Close was first")
				require.Empty(t, below.written)
			})
		})
	}
}

// The goal: Close interrupts a Flush, and the end of a trip does not depend on another Read.
func TestConn_CloseEndsEveryTripOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below, pushes := newStuck(), 0
		c := trip.NewConn(below, func(resp.Value) { pushes++ })
		_, received := enqueueAll(t, c, "A B")
		done := inBackground(c.Flush)
		<-below.written
		trips, more := enqueueAll(t, c, "C")
		s, q, queued := received[0], more[0], trips[0]
		below.replies <- ":1\r\n"
		below.replies <- pushed
		read(c)
		synctest.Wait()
		require.Equal(t, 1, pushes, "a push in the midst of the replies must not wait")
		require.NoError(t, c.Close())
		<-done
		s.ended(t, trip.Broken)
		q.ended(t, trip.Unsent)
		require.Len(t, s.replies, 1)

		require.NoError(t, c.Close())
		c.Flush()
		s.open(t)
		q.open(t)
		require.ErrorIs(t, c.Enqueue(queued), net.ErrClosed)
		_, err := c.Write(pingBytes)
		require.ErrorIs(t, err, net.ErrClosed)
		q.open(t)

		again, _ := newTrip("D")
		other := trip.NewConn(newStuck(), func(resp.Value) {})
		require.NoError(t, other.Enqueue(queued), "it may be enqueued again")
		require.NoError(t, other.Enqueue(again))
		require.Panics(t, func() { _ = other.Enqueue(again) })
	})
}

// closing is stuck with a function that runs while it is being closed.
type closing struct {
	*stuck
	during func()
}

func (c *closing) Close() error {
	during := c.during
	c.during = func() {}
	during()
	return nil
}

// The goal: no owner goes on with the next connection while this one may still send.
func TestConn_TripsEndAfterTheConnectionIsClosed(t *testing.T) {
	below := &closing{stuck: newStuck()}
	close(below.unblock)
	c := trip.NewConn(below, func(resp.Value) {})
	_, sent := enqueueAll(t, c, "A")
	c.Flush()
	_, queued := enqueueAll(t, c, "B")
	below.during = func() {
		other, _ := newTrip("C")
		require.ErrorIs(t, c.Enqueue(other), net.ErrClosed)
		require.NoError(t, c.Close()) // a second one ends nothing
		c.Flush()
		_, err := c.Write(pingBytes)
		require.ErrorIs(t, err, net.ErrClosed)
		sent[0].open(t)
		queued[0].open(t)
	}
	require.NoError(t, c.Close())
	sent[0].ended(t, trip.Broken)
	queued[0].ended(t, trip.Unsent)
	require.Len(t, below.written, 1)
}

// The goal: replies that were read and not decoded are nobody's after the trip has ended.
func TestConn_DecodesNothingAfterClose(t *testing.T) {
	below := newStuck()
	close(below.unblock)
	c := trip.NewConn(below, func(resp.Value) {})
	_, err := c.Write(pingBytes)
	require.NoError(t, err)
	_, received := enqueueAll(t, c, "A")
	r := received[0]
	c.Flush()
	below.replies <- "+PONG\r\n:1\r\n"
	_, err = c.Read(make([]byte, 99))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	r.ended(t, trip.Broken)
	_, err = c.Read(make([]byte, 99))
	require.ErrorIs(t, err, net.ErrClosed)
	require.Empty(t, r.replies)
	r.open(t)
}

// hook runs a function at a reply.
type hook struct {
	*atEnd
	onReply func()
}

func (h hook) OnReply(i int, r resp.Reply) {
	h.onReply()
	h.atEnd.OnReply(i, r)
}

// The goal: while a reply is taken, its trip does not end, and its owner does not reuse it.
func TestConn_CloseDuringAReplyEndsTheTripBehindIt(t *testing.T) {
	below := newStuck()
	close(below.unblock)
	c := trip.NewConn(below, func(resp.Value) {})
	next, r := newTrip("A", "B", "C")
	calls := 0
	next.Receiver = hook{r, func() {
		if calls++; calls == 1 {
			closed := make(chan struct{})
			go func() {
				_ = c.Close()
				close(closed)
			}()
			<-closed
		}
		r.open(t)
	}}
	require.NoError(t, c.Enqueue(next))
	c.Flush()
	below.replies <- "+OK\r\n:1\r\n"
	_, err := c.Read(make([]byte, 99))
	require.ErrorIs(t, err, net.ErrClosed)
	r.ended(t, trip.Broken)
	require.Len(t, r.replies, 2, "they came")
}

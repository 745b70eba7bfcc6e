package trip_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
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
		t.Parts = append(t.Parts, resp.AppendCommand(nil, w))
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

// inBackground writes placeholders, and returns a channel for the error.
func inBackground(c *trip.Conn, placeholders int) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Write(bytes.Repeat(placeholderBytes, placeholders))
		done <- err
	}()
	return done
}

// The goal: the owner gets the bytes back only when the Write has returned, also if the reply was
// faster.
func TestConn_ATripEndsAfterItsWrite(t *testing.T) {
	below := newStuck()
	c := trip.NewConn(below, func(error) {})
	first, r := newTrip("A", "B")
	require.NoError(t, c.Enqueue(first))
	done := inBackground(c, 1)
	<-below.written
	below.replies <- ":1\r\n:2\r\n"
	p := make([]byte, 99)
	n, err := c.Read(p)
	require.NoError(t, err, "the commands must be counted before they are sent")
	require.Equal(t, "+OK\r\n", string(p[:n]))
	require.Len(t, r.replies, 2)
	r.open(t)
	close(below.unblock)
	require.NoError(t, <-done)
	r.ended(t, trip.Answered)
}

// slowClose is a connection whose Write returns only when it is let to, also after Close.
type slowClose struct{ *stuck }

func (c slowClose) Write(p []byte) (int, error) {
	c.written <- p
	<-c.unblock
	return 0, errors.New("cut off")
}

// The goal: Close waits for nothing, and the trips of a Write end with it. One that was answered
// before is answered, and a trip behind it was not sent.
func TestConn_ATripOfAWriteEndsAfterCloseAndTheWrite(t *testing.T) {
	below := slowClose{newStuck()}
	c := trip.NewConn(below, func(error) {})
	var received []*atEnd
	for range 3 {
		next, r := newTrip("A")
		require.NoError(t, c.Enqueue(next))
		received = append(received, r)
	}
	done := inBackground(c, 2)
	<-below.written
	below.replies <- ":1\r\n"
	p := make([]byte, 99)
	_, err := c.Read(p)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	received[0].open(t)
	received[1].open(t)
	received[2].ended(t, trip.Unsent)
	close(below.unblock)
	require.EqualError(t, <-done, "cut off")
	received[0].ended(t, trip.Answered)
	received[1].ended(t, trip.Broken)
	received[2].open(t)
}

// The goal: Close interrupts a Write, and the end of a trip does not depend on another Read.
func TestConn_CloseEndsEveryTripOnce(t *testing.T) {
	below := newStuck()
	c := trip.NewConn(below, func(error) {})
	sent, s := newTrip("A", "B")
	queued, q := newTrip("C")
	require.NoError(t, c.Enqueue(sent))
	require.NoError(t, c.Enqueue(queued))
	done := inBackground(c, 1)
	<-below.written
	below.replies <- ":1\r\n"
	below.replies <- pushed
	p := make([]byte, 99)
	n, err := c.Read(p)
	require.NoError(t, err)
	require.Equal(t, pushed, string(p[:n]), "a push in the midst of the replies must not wait")
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-done, net.ErrClosed)
	s.ended(t, trip.Broken)
	q.ended(t, trip.Unsent)
	require.Len(t, s.replies, 1)

	require.NoError(t, c.Close())
	s.open(t)
	q.open(t)
	require.ErrorIs(t, c.Enqueue(queued), net.ErrClosed)
	_, err = c.Write(placeholderBytes)
	require.ErrorIs(t, err, net.ErrClosed)
	require.False(t, c.Withdraw(queued))
	q.open(t)

	again, _ := newTrip("D")
	other := trip.NewConn(newStuck(), func(error) {})
	require.NoError(t, other.Enqueue(queued), "it may be enqueued again")
	require.NoError(t, other.Enqueue(again))
	require.Panics(t, func() { _ = other.Enqueue(again) })
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
	c := trip.NewConn(below, func(error) {})
	sent, s := newTrip("A")
	queued, q := newTrip("B")
	require.NoError(t, c.Enqueue(sent))
	require.NoError(t, c.Enqueue(queued))
	require.NoError(t, <-inBackground(c, 1))
	below.during = func() {
		other, _ := newTrip("C")
		require.ErrorIs(t, c.Enqueue(other), net.ErrClosed)
		require.NoError(t, c.Close()) // a second one ends nothing
		below.replies <- pushed
		_, err := c.Read(make([]byte, 99))
		require.NoError(t, err)
		require.ErrorIs(t, <-inBackground(c, 1), net.ErrClosed)
		s.open(t)
		q.open(t)
	}
	require.NoError(t, c.Close())
	s.ended(t, trip.Broken)
	q.ended(t, trip.Unsent)
}

// The goal: replies that were read and not decoded are nobody's after the trip has ended.
func TestConn_DecodesNothingAfterClose(t *testing.T) {
	below := newStuck()
	close(below.unblock)
	c := trip.NewConn(below, func(error) {})
	next, r := newTrip("A")
	require.NoError(t, c.Enqueue(next))
	require.NoError(t, <-inBackground(c, 1))
	below.replies <- pushed + ":1\r\n"
	_, err := c.Read(make([]byte, len(pushed)))
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
	c := trip.NewConn(below, func(error) {})
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
	require.NoError(t, <-inBackground(c, 1))
	below.replies <- "+OK\r\n:1\r\n"
	_, err := c.Read(make([]byte, 99))
	require.ErrorIs(t, err, net.ErrClosed)
	r.ended(t, trip.Broken)
	require.Len(t, r.replies, 2, "they came")
}

// The goal: a connection that failed to send some bytes sends no others behind them.
func TestConn_SendsNothingAfterAnErrorOfWrite(t *testing.T) {
	below := newStuck()
	c := trip.NewConn(below, func(error) {})
	next, r := newTrip("A")
	require.NoError(t, c.Enqueue(next))
	done := inBackground(c, 1)
	<-below.written
	require.NoError(t, below.Close())
	require.Error(t, <-done)
	other, _ := newTrip("B")
	require.ErrorIs(t, c.Enqueue(other), net.ErrClosed)
	_, err := c.Write(pingBytes)
	require.ErrorIs(t, err, net.ErrClosed)
	require.Empty(t, below.written)
	require.NoError(t, c.Close())
	r.ended(t, trip.Broken)
}

func TestConn_WithdrawEndsATripThatWasNotTaken(t *testing.T) {
	below := newStuck()
	close(below.unblock)
	c := trip.NewConn(below, func(error) {})
	var trips []*trip.Trip
	var received []*atEnd
	for _, word := range []string{"A", "B", "C"} {
		next, r := newTrip(word)
		require.NoError(t, c.Enqueue(next))
		trips, received = append(trips, next), append(received, r)
	}
	require.True(t, c.Withdraw(trips[1]))
	received[1].ended(t, trip.Unsent)
	require.False(t, c.Withdraw(trips[1]))
	require.NoError(t, <-inBackground(c, 3))
	require.Equal(t, "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nC\r\n"+string(pingBytes),
		string(<-below.written))
	require.False(t, c.Withdraw(trips[0]))
	received[0].open(t)
	require.NoError(t, c.Close())
	received[0].ended(t, trip.Broken)
	received[2].ended(t, trip.Broken)
	received[1].open(t)
}

// wrapper counts what passes through it.
type wrapper struct {
	net.Conn
	writes int
}

func (w *wrapper) Write(p []byte) (int, error) {
	w.writes++
	return w.Conn.Write(p)
}

// raw is a wrapper that leaves bytes unchanged.
type raw struct{ wrapper }

func (r *raw) Raw() net.Conn { return r.Conn }

// The goal: several parts are one system call if the socket can be used, and else one Write: with
// TLS each Write is a record.
func TestConn_SendsAllPartsAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	for _, direct := range []bool{true, false} {
		client, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		server, err := listener.Accept()
		require.NoError(t, err)
		r := &raw{wrapper{Conn: client}}
		c := trip.NewConn(r, func(error) {})
		if !direct {
			c = trip.NewConn(&r.wrapper, func(error) {})
		}
		for range 2 {
			next, _ := newTrip("A", "B")
			require.NoError(t, c.Enqueue(next))
		}
		_, err = c.Write(append(bytes.Repeat(placeholderBytes, 2), pingBytes...))
		require.NoError(t, err)
		want := append(bytes.Repeat([]byte("*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n"), 2),
			pingBytes...)
		got := make([]byte, len(want))
		_, err = io.ReadFull(server, got)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		require.Equal(t, !direct, r.writes == 1)
		require.NoError(t, c.Close())
		_ = server.Close()
	}
}

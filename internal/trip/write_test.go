package trip_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// The goal: a connection that failed to send some bytes sends no others behind them. If a Flush
// fails, the connection is closed: the client may have nothing to write, and the server may be
// silent. If a Write fails, the client closes it.
func TestConn_SendsNothingAfterAnErrorOfWrite(t *testing.T) {
	for name, send := range senders {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newStuck()
				c := trip.NewConn(slowClose{below}, func(error) {})
				_, sent := enqueueAll(t, c, "A")
				done := inBackground(func() { send(c) })
				<-below.written
				_, queued := enqueueAll(t, c, "B")
				close(below.unblock)
				<-done
				require.EqualError(t, c.Cause(), "cut off")
				if name == "Write" {
					queued[0].open(t)
				} else {
					sent[0].ended(t, trip.Broken)
					queued[0].ended(t, trip.Unsent)
					<-below.closed
				}
				other, _ := newTrip("C")
				require.ErrorIs(t, c.Enqueue(other), net.ErrClosed)
				_, err := c.Write(pingBytes)
				require.ErrorIs(t, err, net.ErrClosed)
				require.Empty(t, below.written)
				require.NoError(t, c.Close())
				if name == "Write" {
					sent[0].ended(t, trip.Broken)
					queued[0].ended(t, trip.Unsent)
				}
				require.EqualError(t, c.Cause(), "cut off", "the first")
			})
		})
	}
}

// The goal: the reason for the end of a connection is known before its trips end.
func TestConn_KnowsWhyItFailed(t *testing.T) {
	below := newStuck()
	close(below.unblock)
	c := trip.NewConn(below, func(error) {})
	require.NoError(t, c.Cause())
	_, received := enqueueAll(t, c, "A")
	c.Flush()
	require.NoError(t, below.Close()) // as if the server had ended it
	_, err := c.Read(make([]byte, 9))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, c.Cause(), net.ErrClosed)
	received[0].open(t)
	require.NoError(t, c.Close())
	received[0].ended(t, trip.Broken)
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
	for i := range 4 {
		direct, byWrite := i&1 == 0, i&2 == 0
		client, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		server, err := listener.Accept()
		require.NoError(t, err)
		r := &raw{wrapper{Conn: client}}
		c := trip.NewConn(r, func(error) {})
		if !direct {
			c = trip.NewConn(&r.wrapper, func(error) {})
		}
		want := bytes.Repeat([]byte("*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n"), 2)
		enqueueAll(t, c, "A B", "A B")
		if byWrite {
			_, err = c.Write(pingBytes)
			require.NoError(t, err)
			want = append(want, pingBytes...)
		} else {
			c.Flush()
		}
		got := make([]byte, len(want))
		_, err = io.ReadFull(server, got)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		require.Equal(t, !direct, r.writes == 1)
		require.NoError(t, c.Close())
		_ = server.Close()
	}
}

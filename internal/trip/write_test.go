package trip_test

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// The goal: a connection that failed to send some bytes sends no others behind them. It is closed:
// the client may have nothing to write, and the server may be silent.
func TestConn_SendsNothingAfterAnErrorOfWrite(t *testing.T) {
	for name, send := range senders {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newStuck()
				c := trip.NewConn(slowClose{below}, func(resp.Value) {})
				_, sent := enqueueAll(t, c, "A")
				done := inBackground(func() { send(c) })
				<-below.written
				_, queued := enqueueAll(t, c, "B")
				close(below.unblock)
				<-done
				require.EqualError(t, c.Cause(), "cut off")
				sent[0].ended(t, trip.Broken)
				queued[0].ended(t, trip.Unsent)
				<-below.closed
				other, _ := newTrip("C")
				require.ErrorIs(t, c.Enqueue(other), net.ErrClosed)
				_, err := c.Write(pingBytes)
				require.ErrorIs(t, err, net.ErrClosed)
				require.Empty(t, below.written)
				require.NoError(t, c.Close())
				require.EqualError(t, c.Cause(), "cut off", "the first")
			})
		})
	}
}

// The goal: the reason for the end of a connection is known before its trips end.
func TestConn_KnowsWhyItFailed(t *testing.T) {
	below := newStuck()
	close(below.unblock)
	c := trip.NewConn(below, func(resp.Value) {})
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

// counted counts the writes of a connection.
type counted struct {
	*scripted
	writes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes++
	return c.scripted.Write(p)
}

// The goal: all trips that wait, and a command of the client, are one Write: with TLS each is a
// record.
func TestConn_SendsAllThatWaitsAtOnce(t *testing.T) {
	for name, send := range senders {
		below := &counted{scripted: &scripted{}}
		c := trip.NewConn(below, func(resp.Value) {})
		want := "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n"
		enqueueAll(t, c, "A B", "A B")
		send(c)
		want += want
		if name == "Write" {
			want += string(pingBytes)
		}
		require.Equal(t, want, below.wire.String())
		require.Equal(t, 1, below.writes)
	}
}

// The goal: a large command leaves when it is whole, however it is cut, and costs no memory then.
func TestConn_KeepsTheBeginOfACommandBack(t *testing.T) {
	below := &scripted{}
	c := trip.NewConn(below, func(resp.Value) {})
	large := resp.AppendCommand(nil, "SET", strings.Repeat("x", 300_000))
	for _, p := range [][]byte{large[:5], large[5:200_000], large[200_000:]} {
		require.Empty(t, below.wire.String())
		n, err := c.Write(p)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
	}
	require.Equal(t, string(large), below.wire.String())
}

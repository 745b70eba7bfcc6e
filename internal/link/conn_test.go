package link

import (
	"io"
	"net"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// The goal: a connection that the client gives up has not failed: the votes under way show no error
// of a socket that the client itself has closed.
func TestConn_AbandonIsNoFailure(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	c := &Conn{Conn: conn, onClose: func() {}}
	c.Trips = trip.NewConn(c, func(resp.Value) {})
	next := &testTrip{ends: make(chan trip.End, 2)}
	next.Receiver, next.Commands = next, 1
	next.Bytes = resp.AppendCommand(nil, "GET", "k")
	require.NoError(t, c.Trips.Enqueue(&next.Trip))
	c.Trips.Flush()
	read := make(chan error)
	go func() { // as rueidis does
		_, err := c.Trips.Read(make([]byte, 100))
		_ = c.Trips.Close()
		read <- err
	}()
	c.Abandon()
	require.NotErrorIs(t, <-read, io.EOF)
	require.Equal(t, trip.Broken, <-next.ends)
	require.NoError(t, c.Failure())
}

package link

import (
	"io"
	"net"
	"testing"

	"github.com/lockpipe/lockpipe/internal/endpoint"
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

// named is a master that others name.
type named struct {
	endpoint.Masters
	confirmed bool
}

func (m *named) Confirmed() bool { return m.confirmed }

// The goal: nothing is sent over a verified connection while too few servers of a cluster have
// named its server as the owner. What was sent before counts.
func TestLink_OnlyAConfirmedOwnerIsAsked(t *testing.T) {
	c, m := new(Conn), new(named)
	c.state.Store(connVerified)
	l := &Link{masters: m}
	l.current.Store(c)
	require.Nil(t, l.Verified())
	require.True(t, l.StillValid(c))
	m.confirmed = true
	require.Equal(t, c, l.Verified())
}

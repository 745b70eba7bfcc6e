package link

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/keepalive"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// canned is a connection whose server says one thing after the first Write, one after the second,
// and so on, and then ends it. It takes everything.
type canned struct {
	net.Conn
	says    []string // the reader's
	written chan struct{}
	closed  chan struct{}
	once    sync.Once
}

func newCanned(says ...string) *canned {
	return &canned{
		says: says, written: make(chan struct{}, 1000), closed: make(chan struct{}),
	}
}

func (c *canned) Write(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case c.written <- struct{}{}:
	}
	return len(p), nil
}

func (c *canned) Read(p []byte) (int, error) {
	for len(c.says) > 0 {
		select {
		case <-c.closed:
			return 0, net.ErrClosed
		case <-c.written:
		}
		n := copy(p, c.says[0])
		if c.says[0] = c.says[0][n:]; c.says[0] != "" {
			c.written <- struct{}{}
		} else {
			c.says = c.says[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

func (c *canned) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (*canned) SetDeadline(time.Time) error { return nil }
func (*canned) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// nobody is an owner that does nothing.
type nobody struct{ Owner }

func (nobody) Invalidated([]string) {}

// counted counts what becomes of a trip.
type counted struct {
	trip.Trip
	replies, ends int
	end           trip.End
}

func (c *counted) OnReply(i int, _ resp.Reply) {
	if i != c.replies {
		panic("replies in another order")
	}
	c.replies++
}

func (c *counted) OnEnd(end trip.End) { c.end = end; c.ends++ }

// FuzzConn lets a real rueidis, under a Conn with trips and a keep-alive, have whatever a server
// says: in the handshake, as pushes, to trips, to rare commands and to the keep-alive. A panic in
// rueidis' goroutines ends the process, and so the fuzzing. So does a goroutine that never ends.
func FuzzConn(f *testing.F) {
	const pong, trips, rare = "+PONG\r\n", ":1\r\n*3\r\n:0\r\n:1\r\n:2\r\n$-1\r\n:1\r\n",
		"$1\r\nv\r\n:1\r\n"
	for stream := range resptest.Ordinary {
		f.Add(stream, pong, trips, rare, pong)
		f.Add(resptest.Hello, pong+stream, trips, rare, pong)
		f.Add(resptest.Hello, pong, stream+stream+stream+stream, rare, pong)
		f.Add(resptest.Hello, pong, trips, stream+stream, pong)
		f.Add(resptest.Hello, pong, trips, rare, stream+pong)
	}
	for stream := range resptest.Hostile {
		stream = stream[:min(len(stream), 1000)]
		f.Add(stream, pong, trips, rare, pong)
		f.Add(resptest.Hello, pong+stream, trips, rare, pong)
		f.Add(resptest.Hello, pong, ":1\r\n:1\r\n"+stream, rare, pong)
		f.Add(resptest.Hello, pong, trips+stream, rare, pong)
		f.Add(resptest.Hello, pong, trips, ":1\r\n"+stream, pong)
		f.Add(resptest.Hello, pong, trips, rare, stream)
	}
	f.Fuzz(func(t *testing.T, handshake, connected, trips, rare, kept string) {
		synctest.Test(t, func(t *testing.T) {
			survive(t, newCanned(handshake, connected, trips, rare, kept))
		})
	})
}

// survive does on a connection whatever is done on one.
func survive(t *testing.T, conn *canned) {
	t.Helper()
	e, err := endpoint.Parse("redis://host", nil, 0)
	require.NoError(t, err)
	l := &Link{
		cfg:    Config{Endpoint: e, Owner: nobody{}},
		logins: endpoint.NewLogins(e, nil, slog.New(slog.DiscardHandler)),
	}
	c := &Conn{Conn: conn, onClose: func() {}}
	c.Trips = trip.NewConn(c, func(push resp.Value) { l.onPush(c, push) })
	c.keepAlive = keepalive.New(c.Trips, SilenceGap, ProbeTimeout, c.giveUp)
	l.current.Store(c)
	option := clientOption(e)
	dialled := false
	option.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config,
	) (net.Conn, error) {
		if ctx.Value(permitKey{}) == nil || dialled {
			return nil, ErrNotConnected
		}
		dialled = true
		return c.Trips, nil
	}
	l.client, _ = rueidis.NewClient(option)
	require.NotNil(t, l.client)
	permitted := context.WithValue(t.Context(), permitKey{}, &dialPermit{})
	l.client.Do(permitted, l.client.B().Ping().Build())

	one, several := &counted{}, &counted{}
	one.Trip = trip.Trip{
		Bytes: resp.AppendCommand(nil, "GET", "k"), Commands: 1, Receiver: one,
	}
	several.Trip = trip.Trip{Commands: 3, Receiver: several}
	for _, key := range []string{"a", "b", "c"} {
		several.Bytes = resp.AppendCommand(several.Bytes, "GET", key)
	}
	var queued []*counted
	for _, next := range []*counted{one, several} {
		if c.Trips.Enqueue(&next.Trip) == nil {
			queued = append(queued, next)
		}
	}
	c.Trips.Flush()
	get, del := l.client.B().Get().Key("k").Build(), l.client.B().Del().Key("k").Build()
	for _, r := range l.client.DoMulti(t.Context(), get, del) {
		_, _ = r.ToAny()
	}
	_, _ = c.Trips.Do(t.Context(), []string{"GET", "k"}, []string{"HELLO"})
	time.Sleep(2 * SilenceGap) // the keep-alive asks
	l.client.Close()
	_ = c.Close()
	synctest.Wait()
	for _, next := range queued {
		require.Equal(t, 1, next.ends)
		require.Equal(t, next.end == trip.Answered, next.replies == next.Commands)
		if next.end == trip.Unsent {
			require.Zero(t, next.replies)
		}
	}
	require.True(t, c.IsClosed())
}

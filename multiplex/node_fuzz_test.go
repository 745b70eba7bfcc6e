package multiplex

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/lockpipe/lockpipe/internal/watch"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// canned is a connection whose server says one thing after the first Write, one after the second,
// and so on, and then ends it. It takes everything. Where there is a deadline to wait for, it has
// passed.
type canned struct {
	net.Conn
	says    []string // the reader's
	written chan struct{}
	closed  chan struct{}
	hurried atomic.Bool
}

func newCanned(says ...string) *canned {
	return &canned{says: says, written: make(chan struct{}, 100), closed: make(chan struct{}, 1)}
}

func (c *canned) Write(p []byte) (int, error) {
	notify(c.written)
	return len(p), nil
}

func (c *canned) Read(p []byte) (int, error) {
	for len(c.says) > 0 {
		select {
		case <-c.written:
			n := copy(p, c.says[0])
			if c.says[0] = c.says[0][n:]; c.says[0] == "" {
				c.says = c.says[1:]
			} else {
				notify(c.written)
			}
			return n, nil
		default:
		}
		if c.hurried.Load() {
			return 0, os.ErrDeadlineExceeded
		}
		select {
		case <-c.closed:
			return 0, net.ErrClosed
		case <-c.written:
			notify(c.written)
		}
	}
	return 0, io.EOF
}

func (c *canned) Close() error {
	notify(c.closed)
	return nil
}

func (c *canned) SetDeadline(t time.Time) error {
	c.hurried.Store(!t.IsZero())
	return nil
}

func (*canned) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// FuzzANodeSurvives lets a real rueidis, and what reads the replies behind it, have what passes the
// check: in the handshake, in answer to a flush of every kind of attempt, and to watches. A panic
// in rueidis' goroutines ends the process, and so the fuzzing.
func FuzzANodeSurvives(f *testing.F) {
	// Two releases, two extensions, a SET and a script, of which one key is held by another.
	const quiet = ":1\r\n*3\r\n:0\r\n:1\r\n:2\r\n$-1\r\n*3\r\n:0\r\n:1\r\n:3\r\n"
	for stream := range resptest.Ordinary {
		f.Add(stream, "", quiet, false)
		f.Add(resptest.Hello, stream, quiet, false)
		f.Add(resptest.Hello, "", stream, true)
		f.Add(resptest.Hello, "", stream+stream+stream+stream, false)
	}
	for stream := range resptest.Hostile {
		stream = stream[:min(len(stream), 1000)]
		f.Add(stream, "", quiet, false)
		f.Add(resptest.Hello, stream, quiet, true)
		f.Add(resptest.Hello, "", stream, false)
		f.Add(resptest.Hello, "", ":1\r\n:1\r\n"+stream, true)
		f.Add(resptest.Hello, "", quiet+stream, false)
	}
	f.Fuzz(func(t *testing.T, handshake, connected, stream string, watched bool) {
		e, err := parse("redis://host", nil)
		require.NoError(t, err)
		conn := newCanned(handshake, "+PONG\r\n"+connected, stream)
		m := &Mux{}
		n := &node{mux: m}
		n.watches = n.newWatches()
		m.nodes = []*node{n}
		l := &nodeConn{Conn: conn, onClose: func() {}}
		l.trips = trip.NewConn(l, func(error) {})
		l.state.Store(connVerified)
		n.active.conn.Store(l)
		var dialled atomic.Bool
		e.option.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer,
			_ *tls.Config,
		) (net.Conn, error) {
			if ctx.Value(permitKey{}) == nil || dialled.Swap(true) {
				return nil, errNotConnected
			}
			return l.trips, nil
		}
		e.option.OnInvalidations = n.onInvalidate
		n.client, _ = rueidis.NewClient(e.option)
		require.NotNil(t, n.client)
		n.placeholder = n.client.B().Arbitrary(trip.Placeholder).Build().Pin()
		defer n.client.Close()
		n.client.Do(context.WithValue(t.Context(), permitKey{}, &dialPermit{}),
			n.client.B().Ping().Build())

		if watched {
			n.sendWatches([]string{"k", "l"}, make([]watch.Reply, 2))
			return
		}
		attempts := []*Attempt{}
		for _, k := range []kind{release, extend, acquire} {
			for _, c := range []*Claim{claim("k", "t"), trio()} {
				c.latest = m.newAttempt(c, k, time.Minute, time.Minute, time.Minute)
				c.acquired = m.all()
				attempts = append(attempts, c.latest)
			}
		}
		for i, a := range flushed(n, attempts...) {
			require.True(t, a.vote != unknown || a.err != nil, "unknown for no reason")
			require.Less(t, int(a.keyIndex), attempts[i].claim.Len())
		}
	})
}

func trio() *Claim {
	c := new(Claim)
	c.Init("", []string{"a", "b", "c"}, "t")
	return c
}

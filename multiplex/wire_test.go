package multiplex

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/watch"
	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// request is a command as rueidis writes it.
func request(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

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

// The goal: each command is counted once, with its last byte, however the writes are split.
func TestCommandsAreCountedByTheirLastByte(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var stream strings.Builder
	var ends []int
	for i := range 200 {
		args := []string{"SET"}
		for range random.IntN(5) {
			args = append(args, strings.Repeat("*1\r\n", random.IntN(30)*random.IntN(2)))
		}
		if i%50 == 49 {
			args = append(args, strings.Repeat("x", 300000))
		}
		stream.WriteString(request(args...))
		ends = append(ends, stream.Len())
	}
	for _, most := range []int{1, 3, 100, 1 << 17, 1 << 30} {
		var c commands
		counted, want := 0, 0
		for at := 0; at < stream.Len(); {
			piece := stream.String()[at:min(at+1+random.IntN(most), stream.Len())]
			n, ok := c.count([]byte(piece))
			at += len(piece)
			counted += int(n)
			for want < len(ends) && ends[want] <= at {
				want++
			}
			if !ok || counted != want {
				t.Fatalf("counted %d at byte %d, not %d", counted, at, want)
			}
		}
		require.Equal(t, len(ends), counted)
	}
}

// The goal: what can't be followed is not sent, since the count of commands would be wrong from
// then on.
func TestACommandThatIsNoArrayIsNotSent(t *testing.T) {
	for _, bad := range []string{
		"PING\r\n", "*0\r\n", "*1\r\n*1\r\n", "$1\r\nx\r\n",
		"*1\r\n$-1\r\n", "*x\r\n", "*1\r\n:1\r\n", "*\r\n",
	} {
		c := newCheckedConn(newCanned(), &dialPermit{})
		n, err := c.Write([]byte(bad))
		require.Zero(t, n)
		require.ErrorIs(t, err, errCommand, "%q", bad)
	}
}

// The goal: what came before a fault is passed on, nothing behind it, and the connection stays
// dead.
func TestAFaultIsForGood(t *testing.T) {
	ticket := &dialPermit{}
	c := newCheckedConn(newCanned("+OK\r\n:1\r\n+OK\r\n"), ticket)
	_, err := c.Write([]byte(request("PING")))
	require.NoError(t, err)
	p := make([]byte, 100)
	n, err := c.Read(p)
	require.Equal(t, "+OK\r\n", string(p[:n]))
	require.EqualError(t, err, "protocol error: a reply of type ':' that no command asked for")
	require.Equal(t, err, *ticket.protocolErr.Load())
	_, again := c.Write([]byte(request("PING")))
	require.NoError(t, again)
	n, again = c.Read(p)
	require.Zero(t, n)
	require.Equal(t, err, again)
}

// The goal: the check allocates nothing.
func TestTheCheckAllocatesNothing(t *testing.T) {
	c := newCheckedConn(&silent{reply: ":128\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n"},
		&dialPermit{})
	flush, in := []byte(typicalFlush()), make([]byte, 1000)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := c.Write(flush); err != nil {
			panic(err)
		}
		if _, err := c.Read(in); err != nil {
			panic(err)
		}
	}))
}

func typicalFlush() string {
	args := []string{"EVALSHA", script.Acquire.SHA, "128"}
	for i := range 128 {
		args = append(args, fmt.Sprintf("lock:customer:%d", i))
	}
	args = append(args, "10000")
	for range 255 {
		args = append(args, strings.Repeat("t", 27))
	}
	return request(args...)
}

// silent takes everything and says the same for each Write.
type silent struct {
	net.Conn
	reply string
}

func (s *silent) Write(p []byte) (int, error) { return len(p), nil }
func (s *silent) Read(p []byte) (int, error)  { return copy(p, s.reply), nil }

func BenchmarkCheckedConn(b *testing.B) {
	for name, flush := range map[string]string{"128sets": typicalFlush(), "one": request("SET",
		"lock:customer:1", strings.Repeat("t", 27), "NX", "PX", "10000")} {
		b.Run(name, func(b *testing.B) {
			c := newCheckedConn(&silent{reply: ":128\r\n"}, &dialPermit{})
			p, in := []byte(flush), make([]byte, 1<<12)
			b.ReportAllocs()
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				if _, err := c.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Read(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzANodeSurvives lets a real rueidis, and what reads the replies behind it, have what passes the
// check: in the handshake, in answer to a flush of every kind of attempt, and to watches. A panic
// in rueidis' goroutines ends the process, and so the fuzzing.
func FuzzANodeSurvives(f *testing.F) {
	// Two releases, two extensions, a SET and a script, of which one key is held by another.
	const quiet = ":1\r\n:3\r\n:1\r\n*3\r\n:0\r\n:1\r\n:2\r\n$-1\r\n*3\r\n:0\r\n:1\r\n:3\r\n"
	for stream := range ordinary {
		f.Add(stream, "", quiet, false)
		f.Add(hello, stream, quiet, false)
		f.Add(hello, "", stream, true)
		f.Add(hello, "", stream+stream+stream+stream, false)
	}
	for stream := range hostile {
		stream = stream[:min(len(stream), 1000)]
		f.Add(stream, "", quiet, false)
		f.Add(hello, stream, quiet, true)
		f.Add(hello, "", stream, false)
		f.Add(hello, "", ":1\r\n:1\r\n"+stream, true)
		f.Add(hello, "", quiet+stream, false)
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
		l.state.Store(connVerified)
		n.active.conn.Store(l)
		var dialled atomic.Bool
		e.option.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer,
			_ *tls.Config,
		) (net.Conn, error) {
			if ctx.Value(permitKey{}) == nil || dialled.Swap(true) {
				return nil, errNotConnected
			}
			return newCheckedConn(l, &dialPermit{}), nil
		}
		e.option.OnInvalidations = n.onInvalidate
		n.client, _ = rueidis.NewClient(e.option)
		require.NotNil(t, n.client)
		defer n.client.Close()
		n.client.Do(context.WithValue(t.Context(), permitKey{}, &dialPermit{}),
			n.client.B().Ping().Build())

		if watched {
			n.sendWatches([]string{"k", "l"}, make([]watch.Reply, 2))
			return
		}
		attempts := []*Attempt{}
		for _, c := range []*Claim{claim("k", "t"), trio()} {
			for _, k := range []kind{release, extend, acquire} {
				attempts = append(attempts, m.newAttempt(c, k, time.Minute, time.Minute,
					time.Minute))
			}
		}
		answers := make([]answer, len(attempts))
		n.sendAttempts(attempts, answers)
		for i, a := range answers {
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

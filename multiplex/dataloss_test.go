package multiplex

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a flush that the server tells of quarantines the node at once; and what it answers
// behind the flush, in the same breath, is no vote. The server stands still until it has both to
// read.
func TestDataLoss_AWipedNodeDoesNotVote(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	for range 5 {
		m := start(t, nodes.URLs(), nil)
		up(t, m)
		flusher, err := net.Dial("tcp", strings.TrimPrefix(nodes.URLs()[0], "redis://"))
		require.NoError(t, err)
		_, err = flusher.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		_, err = flusher.Read(make([]byte, 7))
		require.NoError(t, err)

		require.NoError(t, nodes.Freeze(0))
		_, err = flusher.Write([]byte("FLUSHALL\r\n"))
		require.NoError(t, err)
		a := m.Acquire(claim("k", "t"), time.Minute, 1)
		require.Eventually(t, func() bool { return m.nodes[0].Counts.Flushes.Load() > 0 }, patient,
			often)
		// Mostly enough for the acquire to be there as well; else it is not sent any more.
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, nodes.Thaw(0))
		err = wait(a, t.Context())
		becomes(t, m, 0, link.Quarantined, whyFlushed)
		if ask(t, nodes, 0, "GET", "k") == nil {
			t.Log("the acquire came before the flush, or not at all")
		} else {
			require.ErrorIs(t, err, ErrNoQuorum)
		}
		require.NoError(t, flusher.Close())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_ = m.Close(ctx)
		cancel()
		ask(t, nodes, 0, "DEL", "k", ids.AdmittedKey) // the next round is a first use
	}
}

// The goal: the flush of another database costs a connection and nothing else; the key is in the
// client's own database.
func TestDataLoss_OfAnotherDatabaseIsForgiven(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var quarantined atomic.Bool
	m := start(t, []string{nodes.URLs()[0] + "/1"}, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
			if bytes.Contains(p, []byte("quarantined")) {
				quarantined.Store(true)
			}
		}), nil))
	})
	for range 5 {
		up(t, m)
		before := m.nodes[0].Link.Current()
		ask(t, nodes, 0, "FLUSHDB")
		require.Eventually(t, func() bool {
			return m.nodes[0].Link.Current() != before
		}, patient, often, "not noticed")
	}
	up(t, m)
	require.False(t, quarantined.Load())
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
}

// The goal: a flush after the guard has read its key and before the server would tell of it is
// noticed all the same.
func TestDataLoss_BehindTheHandshakeIsNoticed(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	first := start(t, nodes.URLs(), nil)
	up(t, first)
	var once sync.Once
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &spy{Conn: conn, wrote: func(p []byte) {
				if bytes.Contains(p, []byte("HELLO")) {
					once.Do(func() { _ = nodes.Flush(0) })
				}
			}}, err
		}
	})
	becomes(t, m, 0, link.Quarantined, "")
	becomes(t, first, 0, link.Quarantined, "")
}

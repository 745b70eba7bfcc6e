package multiplex

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// guarded are the replies of a master that has this text in the guard's key.
func guarded(runID, text string) map[string]string {
	info := fmt.Sprintf("run_id:%s\r\nrole:master\r\nmaster_replid2:0\r\n", runID)
	return map[string]string{"GET": resptest.Bulk(text), "INFO": resptest.Bulk(info)}
}

// admit lets the only actor become a master that was admitted.
func admit(t *testing.T, m *Mux, a *actor) {
	t.Helper()
	a.play(guarded("one", "one"))
	a.cut()
	time.Sleep(2 * link.MaxReconnectDelay)
	require.Equal(t, "one", m.nodes[0].Link.Current().Server.RunID)
	up(t, m)
}

// The goal: the guard's key has to be the same when it is read again on a new connection. Between
// the handshake and the first command the server may be flushed, and another client may write a
// record.
func TestConn_NoticesALossBehindTheHandshake(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		a := actors[0]
		admit(t, m, a)
		a.hear(func(command string) {
			if command == "HELLO" { // the first that rueidis sends
				replies := guarded("one", "lost:60000:one:x")
				replies["PTTL "+ids.AdmittedKey] = fmt.Sprintf(":%d\r\n",
					180*24*time.Hour/time.Millisecond)
				a.play(replies)
			}
		})
		a.cut()
		time.Sleep(2 * link.MaxReconnectDelay)
		require.Equal(t, link.Quarantined, m.Nodes()[0].State)
		require.ErrorContains(t, m.Nodes()[0].Err, whyWaits)
		err := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
	})
}

// The goal: a master that became a replica behind the handshake, and maybe a master again, does not
// vote on that connection, even if it has the guard's key as before: that is a copy.
func TestConn_NoticesADemotionBehindTheHandshake(t *testing.T) {
	for _, now := range []string{
		"run_id:one\r\nrole:slave\r\nmaster_replid:b\r\nmaster_replid2:0\r\n",
		"run_id:one\r\nrole:master\r\nmaster_replid:c\r\nmaster_replid2:b\r\n",
	} {
		onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
			a := actors[0]
			admit(t, m, a)
			var sets atomic.Int32
			a.hear(func(command string) {
				switch command {
				case "HELLO": // the first that rueidis sends
					replies := guarded("one", "one")
					replies["INFO"] = resptest.Bulk(now)
					a.play(replies)
				case "SET":
					sets.Add(1)
				}
			})
			a.cut()
			time.Sleep(2 * link.MaxReconnectDelay)
			require.NotEqual(t, link.Up, m.Nodes()[0].State)
			err := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
			require.ErrorIs(t, err, ErrNoQuorum)
			require.Zero(t, sets.Load())
		})
	}
}

// The goal: an acquire is sent only on the connection that was verified before it was sent: neither
// on the next one in place of that, nor before the connector has read the guard's key again.
func TestConn_NothingIsSentOnAnotherOne(t *testing.T) {
	for _, late := range []bool{false, true} {
		hold := func() {}
		onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
			admit(t, m, actors[0])
			leave, dial, look := make(chan struct{}), make(chan struct{}), make(chan struct{})
			trip := m.nodes[0].SendFlush
			m.nodes[0].SendFlush = func(f *node.Flush) {
				<-leave // as if the process were stopped here
				trip(f)
			}
			a := m.Acquire(claim("k", "t"), time.Minute, 1)
			synctest.Wait()

			before, introduced := m.nodes[0].Link.Current(), false
			var sets atomic.Int32
			actors[0].hear(func(command string) {
				if introduced = introduced || command == "HELLO"; introduced && command == "GET" {
					<-look
				}
				if command == "SET" {
					sets.Add(1)
				}
			})
			hold = func() { <-dial }
			actors[0].cut()
			time.Sleep(100 * time.Millisecond)
			require.Same(t, before, m.nodes[0].Link.Current())
			if !late { // it finds the former connection
				close(leave)
				synctest.Wait()
			}
			close(dial)
			synctest.Wait()
			if late { // it finds the new connection, which is not verified yet
				require.NotSame(t, before, m.nodes[0].Link.Current())
				close(leave)
				synctest.Wait()
			}
			close(look)
			err := wait(a, t.Context())
			require.ErrorIs(t, err, ErrNoQuorum)
			require.ErrorContains(t, err, link.ErrNotConnected.Error())
			up(t, m)
			require.Zero(t, sets.Load())
			require.NoError(t, wait(m.Acquire(claim("l", "t"), time.Minute, 1), t.Context()))
			require.EqualValues(t, 1, sets.Load())
		}, func(c *Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				hold()
				return dial(ctx, network, address)
			}
		})
	}
}

// tunnel is a connection as users dial it whose end is the end of a context.
type tunnel struct {
	net.Conn
	over  *atomic.Bool
	wrote func([]byte)
}

func (c *tunnel) Write(p []byte) (int, error) { c.wrote(p); return c.Conn.Write(p) }

func (c *tunnel) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.over.Load() {
		return 0, context.Canceled
	}
	return n, err
}

// The goal: a connection that ends with a context is one that broke: what was sent on it may have
// been done, and is released.
func TestConn_OneThatEndsWithAContextHasBroken(t *testing.T) {
	var over atomic.Bool
	var named atomic.Int32
	onStage(t, 1, func(t *testing.T, m *Mux, _ []*actor) {
		over.Store(true)
		require.ErrorIs(t, wait(m.Acquire(claim("the-key", "t"), time.Minute, 1), t.Context()),
			ErrNoQuorum)
		require.EqualValues(t, 1, named.Load())
		over.Store(false)
		time.Sleep(time.Second)
		require.EqualValues(t, 2, named.Load(), "the release")
	}, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &tunnel{
				conn, &over,
				func(p []byte) { named.Add(int32(bytes.Count(p, []byte("the-key")))) },
			}, err
		}
	})
}

// The goal: the vote of a node says why its connection was given up.
func TestConn_TheVoteSaysThatNothingCame(t *testing.T) {
	var hang atomic.Bool
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		resume := make(chan struct{})
		defer close(resume)
		actors[0].hear(func(string) {
			if hang.Load() {
				<-resume
			}
		})
		hang.Store(true)
		a := m.Acquire(claim("k", "t"), time.Minute, 1)
		c := m.nodes[0].Link.Current()
		for !c.IsClosed() {
			time.Sleep(time.Millisecond)
		}
		err := wait(a, t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, link.ErrSilent.Error())
		hang.Store(false)
	}, func(c *Config) { c.NodeTimeout = 5 * time.Second })
}

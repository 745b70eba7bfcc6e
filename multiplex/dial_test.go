package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/stretchr/testify/require"
)

// stuck is a Config.Dial that ignores its context: a call returns only when next gives it a
// connection.
type stuck struct {
	next  chan net.Conn // closed at the end of the test
	calls atomic.Int32
	now   atomic.Int32 // calls that have not returned
	most  atomic.Int32 // of them at the same time
}

func (s *stuck) dial(context.Context, string, string) (net.Conn, error) {
	s.calls.Add(1)
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	if conn := <-s.next; conn != nil {
		return conn, nil
	}
	return nil, errors.New("the test is over")
}

// whileStuck runs a test in a bubble with one node whose dials are stuck.
func whileStuck(t *testing.T, url string, test func(t *testing.T, m *Mux, s *stuck)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{next: make(chan net.Conn)}
		defer close(s.next)
		m := start(t, []string{url}, func(c *Config) { c.Dial = s.dial })
		synctest.Wait()
		test(t, m, s)
	})
}

// closes wants Close to return, and returns how long it took.
func closes(t *testing.T, m *Mux) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	require.NoError(t, m.Close(ctx))
	return time.Since(begin)
}

// The goal: a dial that ignores its context does not keep the node connecting. The node is down,
// with the reason, and there is no second dial while the first one has not returned.
func TestDial_AStuckCallMakesTheNodeDown(t *testing.T) {
	whileStuck(t, "node", func(t *testing.T, m *Mux, s *stuck) {
		ended := time.Now().Add(endpoint.DialTimeout).Format(time.RFC3339)
		says := "Config.Dial has not returned, although its context ended at " + ended
		time.Sleep(endpoint.DialTimeout + endpoint.DialGrace - time.Millisecond)
		require.Equal(t, link.Connecting, m.Nodes()[0].State)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for range 10 {
			require.Equal(t, link.Down, m.Nodes()[0].State)
			require.EqualError(t, m.Nodes()[0].Err, says)
			begin := time.Now()
			err := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
			require.ErrorIs(t, err, ErrNoQuorum)
			require.ErrorContains(t, err, says)
			require.Zero(t, time.Since(begin), "the call waits for a node that is down")
			time.Sleep(10 * time.Second)
		}
		require.EqualValues(t, 1, s.calls.Load())
		require.LessOrEqual(t, closes(t, m), endpoint.DialGrace)
		require.EqualValues(t, 1, s.now.Load(), "nothing can end the call")
	})
}

// The goal: Close does not wait for a dial that ignores its context. The connection that it returns
// later is closed.
func TestDial_CloseAbandonsAStuckCall(t *testing.T) {
	whileStuck(t, "node", func(t *testing.T, m *Mux, s *stuck) {
		require.EqualValues(t, 1, s.now.Load())
		require.LessOrEqual(t, closes(t, m), endpoint.DialGrace)
		wantsClosed(t, s)
		require.Zero(t, s.now.Load())
		require.EqualValues(t, 1, s.calls.Load(), "there is a dial after Close")
	})
}

// wantsClosed lets the dial return a connection, and wants that closed.
func wantsClosed(t *testing.T, s *stuck) {
	t.Helper()
	ours, theirs := net.Pipe()
	s.next <- theirs
	_, err := ours.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// The goal: when the stuck dial has returned, its connection is closed, and the node is dialled
// again. It comes up when a later dial returns in time.
func TestDial_IsRetriedAfterAStuckCall(t *testing.T) {
	whileStuck(t, "node", func(t *testing.T, m *Mux, s *stuck) {
		for round := range 5 {
			time.Sleep(time.Minute)
			require.EqualValues(t, 1+round, s.calls.Load())
			require.Equal(t, link.Down, m.Nodes()[0].State)
			wantsClosed(t, s)
		}
		time.Sleep(link.MaxReconnectDelay) // the next dial begins
		s.next <- (&actor{}).dial()
		up(t, m)
		require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
		require.EqualValues(t, 6, s.calls.Load())
		require.EqualValues(t, 1, s.most.Load(), "two dials at the same time")
		closes(t, m)
	})
}

// The goal: a dial that returns at the end of its context has its own error in the status.
func TestDial_WaitsForACallThatHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, []string{"node"}, func(c *Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				time.Sleep(endpoint.DialGrace / 2)
				return nil, errors.New("the tunnel is shut")
			}
		})
		time.Sleep(time.Minute)
		require.EqualError(t, m.Nodes()[0].Err, "the tunnel is shut")
		require.LessOrEqual(t, closes(t, m), endpoint.DialGrace)
	})
}

// The goal: a dial that returns neither a connection nor an error makes the node down, with the
// reason. The stack of a panic is logged once.
func TestDial_ACallThatReturnsNothingMakesTheNodeDown(t *testing.T) {
	for says, dial := range map[string]func(){
		"Config.Dial returned neither a connection nor an error": func() {},
		"Config.Dial panicked: no tunnel":                        func() { panic("no tunnel") },
		"Config.Dial ended its goroutine":                        runtime.Goexit,
	} {
		t.Run(says, func(t *testing.T) {
			for _, url := range []string{"redis://node", "rediss://node"} {
				synctest.Test(t, func(t *testing.T) {
					var log journal
					dials := 0
					m := start(t, []string{url}, func(c *Config) {
						c.Logger = slog.New(slog.NewTextHandler(&log, nil))
						c.Dial = func(context.Context, string, string) (net.Conn, error) {
							dials++
							dial()
							return nil, nil
						}
					})
					time.Sleep(time.Minute)
					require.Equal(t, link.Down, m.Nodes()[0].State)
					require.EqualError(t, m.Nodes()[0].Err, says)
					closes(t, m)
					require.Greater(t, dials, 100)
					stacks := 0
					if strings.Contains(says, "panicked") {
						stacks = 1
					}
					require.Equal(t, stacks, strings.Count(log.String(), "stack="))
					require.Equal(t, 1, strings.Count(log.String(), "node is down"))
				})
			}
		})
	}
}

// deaf is a connection from which nothing comes, and Close of which ends no Read.
type deaf struct {
	net.Conn
	end chan struct{} // closed at the end of the test
}

func (d *deaf) Read([]byte) (int, error) {
	<-d.end
	return 0, io.EOF
}

// The goal: the timeout of a dial also bounds TLS on its connection, whatever the connection does.
func TestDial_TLSEndsWithItsTimeout(t *testing.T) {
	for name, stubborn := range map[string]bool{
		"(not connected within 5s: Config.Dial took 2.5s, TLS is not over after": false,
		"Config.Dial, or TLS on its connection, has not returned, although":      true,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				defer close(end)
				m := start(t, nil, func(c *Config) {
					withTLS(t, &tls.Config{InsecureSkipVerify: true}, "rediss://node")(c)
					c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
						select {
						case <-time.After(endpoint.DialTimeout / 2):
						case <-ctx.Done():
						}
						ours, theirs := net.Pipe()
						go func() { _, _ = io.Copy(io.Discard, ours) }()
						if stubborn {
							theirs = &deaf{theirs, end}
						}
						return theirs, nil
					}
				})
				time.Sleep(endpoint.DialTimeout + endpoint.DialGrace)
				synctest.Wait()
				require.Equal(t, link.Down, m.Nodes()[0].State)
				require.ErrorContains(t, m.Nodes()[0].Err, name)
				require.LessOrEqual(t, closes(t, m), endpoint.DialGrace)
			})
		})
	}
}

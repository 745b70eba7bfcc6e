package multiplex

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: each connection has the user and password that are valid when it is made. A connection
// outlasts its password.
func TestLogin_EachConnectionHasItsOwn(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	rotate := func(password string) {
		ask(t, nodes, 0, "ACL", "SETUSER", "me", "on", "resetpass", ">"+password, "~*", "+@all")
	}
	var password atomic.Value
	password.Store("first")
	rotate("first")
	ask(t, nodes, 0, "ACL", "SETUSER", "default", "-script") // which the handshake needs
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Credentials = func(_ context.Context, node string) (string, string, error) {
			if !strings.HasSuffix(c.Nodes[0].Address, node) {
				return "", "", errors.New("unknown node " + node)
			}
			return "me", password.Load().(string), nil
		}
	})
	up(t, m)
	require.Contains(t, ask(t, nodes, 0, "CLIENT", "LIST"), "user=me")
	inspected := func() error {
		all, err := inspector(t, m).Ask(t.Context())
		return errors.Join(err, all[0].Err)
	}
	require.NoError(t, inspected())
	rotate("second")
	require.ErrorContains(t, inspected(), "WRONGPASS")
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
	ask(t, nodes, 0, "CLIENT", "KILL", "USER", "me")
	becomes(t, m, 0, link.Down, "WRONGPASS")
	password.Store("second")
	becomes(t, m, 0, link.Up, "")
	require.NoError(t, wait(m.Acquire(claim("k2", "t"), time.Minute, 1), t.Context()))
}

// The goal: an error, a panic or the end of the goroutine makes the node down, with the reason and
// without what the function returned or panicked with. There is never more than one call.
func TestLogin_AFailureIsNamedWithoutTheSecret(t *testing.T) {
	for says, ask := range map[string]func() (string, string, error){
		"Config.Credentials: the vault refuses ... today": func() (string, string, error) {
			return "u", "s3cret", errors.New("the vault refuses s3cret today")
		},
		"Config.Credentials: context canceled": func() (string, string, error) {
			return "", "", context.Canceled
		},
		"Config.Credentials panicked; the log has the stack": func() (string, string, error) {
			panic("s3cret")
		},
		"Config.Credentials ended its goroutine": func() (string, string, error) {
			runtime.Goexit()
			return "", "", nil
		},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log journal
				calls := 0
				m := start(t, []string{"node"}, func(c *Config) {
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
					c.Dial = func(context.Context, string, string) (net.Conn, error) {
						return nil, errors.New("it is dialled")
					}
					c.Credentials = func(context.Context, string) (string, string, error) {
						calls++
						return ask()
					}
				})
				time.Sleep(time.Minute)
				require.Equal(t, link.Down, m.Nodes()[0].State)
				require.EqualError(t, m.Nodes()[0].Err, says)
				failed := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
				closes(t, m)
				require.Greater(t, calls, 100)
				require.Equal(t, strings.Contains(says, "panicked;"), strings.Contains(log.String(),
					"stack="))
				require.NotContains(t, fmt.Sprintf("%v %v", failed, log.String()), "s3cret")
			})
		})
	}
}

// The goal: a call that ignores its context makes the node down. It is left, no second one is made
// before it has returned, and Close does not wait for it.
func TestLogin_AStuckCallMakesTheNodeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		next := make(chan string)
		defer close(next)
		m := start(t, []string{"node"}, func(c *Config) {
			c.Dial = func(context.Context, string, string) (net.Conn,
				error,
			) {
				return new(actor).dial(), nil
			}
			c.Credentials = func(context.Context, string) (string, string, error) {
				calls.Add(1)
				return "", <-next, nil
			}
		})
		time.Sleep(endpoint.DialTimeout + endpoint.DialGrace)
		synctest.Wait()
		for range 10 {
			require.Equal(t, link.Down, m.Nodes()[0].State)
			require.ErrorContains(t, m.Nodes()[0].Err, "Config.Credentials has not returned, "+
				"although")
			time.Sleep(10 * time.Second)
		}
		require.EqualValues(t, 1, calls.Load())
		next <- ""
		time.Sleep(link.MaxReconnectDelay)
		next <- ""
		up(t, m)
		require.EqualValues(t, 2, calls.Load())
		m.nodes[0].Link.Current().Abandon()
		time.Sleep(endpoint.DialTimeout / 2)
		require.EqualValues(t, 3, calls.Load())
		require.LessOrEqual(t, closes(t, m), endpoint.DialGrace)
	})
}

// The goal: the connector and Inspect ask in turns. A call of the one that hangs is left, and the
// other one gets an error within its limit. A node that is up stays so.
func TestLogin_InspectAndTheConnectorAskInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, now, most atomic.Int32
		next := make(chan string)
		defer close(next)
		m := start(t, []string{"node"}, func(c *Config) {
			c.Dial = func(context.Context, string, string) (net.Conn,
				error,
			) {
				return new(actor).dial(), nil
			}
			c.Credentials = func(context.Context, string) (string, string, error) {
				calls.Add(1)
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return "", <-next, nil
			}
		})
		synctest.Wait()
		hangs := func() {
			began := time.Now()
			all, err := inspector(t, m).Ask(t.Context())
			require.NoError(t, err)
			require.ErrorContains(t, all[0].Err, "Config.Credentials has not returned, although")
			require.LessOrEqual(t, time.Since(began), endpoint.DialTimeout+endpoint.DialGrace)
		}
		hangs() // that of the connector
		require.EqualValues(t, 1, calls.Load())
		next <- ""
		synctest.Wait()
		time.Sleep(link.MaxReconnectDelay)
		next <- ""
		up(t, m)
		hangs() // its own
		require.EqualValues(t, 3, calls.Load())
		require.Equal(t, link.Up, m.Nodes()[0].State)

		m.nodes[0].Link.Current().Abandon()
		time.Sleep(link.MaxReconnectDelay)
		require.ErrorContains(t, m.Nodes()[0].Err, "Config.Credentials has not returned, although")
		next <- ""
		time.Sleep(link.MaxReconnectDelay)
		next <- ""
		up(t, m)
		require.EqualValues(t, 4, calls.Load())
		looks := make(chan error)
		go func() {
			all, err := inspector(t, m).Ask(context.Background())
			looks <- errors.Join(err, all[0].Err)
		}()
		next <- ""
		require.NoError(t, <-looks)
		require.EqualValues(t, 1, most.Load(), "two calls at the same time")
		closes(t, m)
	})
}

// The goal: what the server repeats of the passwords of either connection is hidden from Inspect.
func TestLogin_InspectShowsNoPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, calls := new(actor), 0
		a.play(map[string]string{"AUTH": "+OK\r\n"})
		m := start(t, []string{"node"}, func(c *Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				return a.dial(), nil
			}
			c.Credentials = func(context.Context, string) (string, string, error) {
				calls++
				return "u", fmt.Sprintf("s3cret%d", calls), nil
			}
		})
		up(t, m)
		a.play(map[string]string{
			"AUTH": "+OK\r\n", "INFO": "-ERR s3cret1 s3cret2\r\n",
			"TIME": "-NOAUTH s3cret1 s3cret2\r\n",
		})
		all, err := inspector(t, m).Ask(t.Context())
		require.NoError(t, err)
		require.EqualError(t, all[0].Err, "NOAUTH ... ...")
		require.Equal(t, 2, calls)
		require.NotContains(t, fmt.Sprintf("%+v", all), "s3cret")
		closes(t, m)
	})
}

package multiplex

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: the handshake touches no key that somebody may have.
func TestHandshake_DeletesNothing(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	ask(t, nodes, 0, "SET", ids.ProbeKey, "held")
	ask(t, nodes, 0, "SET", strings.TrimSuffix(ids.ProbeKey, ":"), "held")
	up(t, start(t, nodes.URLs(), nil))
	exist := ask(t, nodes, 0, "EXISTS", ids.ProbeKey, strings.TrimSuffix(ids.ProbeKey, ":"))
	require.EqualValues(t, 2, exist)
}

// The goal: the guard ends the connection that the node had before, which the server may not have
// read to its end.
func TestHandshake_EndsThePreviousConnection(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var left []net.Conn
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			left = append(left, conn) // by the connector alone
			return &spy{Conn: conn, wrote: func([]byte) {}, leave: true}, err
		}
	})
	up(t, m)
	line := m.nodes[0].Link.Current()
	require.NoError(t, line.Close())
	require.Eventually(t, func() bool { return m.nodes[0].Link.Current() != line }, patient,
		often)
	up(t, m)
	require.Equal(t, 1, others(t, nodes, 0))
	require.NoError(t, m.Close(t.Context()))
	for _, conn := range left {
		_ = conn.Close()
	}
}

// The goal: a node whose key can't be read or written is down with the server's own words, and
// never with the password.
func TestHandshake_ADenialHasTheServersWords(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	address := strings.TrimPrefix(nodes.URLs()[0], "redis://")
	for name, test := range map[string]struct{ rules, url, says string }{
		"no write":       {"on >pw ~* +@all -set", "u:pw@", "its user may not use SET: "},
		"no read":        {"on >pw ~* +@all -get", "u:pw@", "can't be read: NOPERM"},
		"no scripts":     {"on >pw ~* +@all -evalsha", "u:pw@", "NOPERM"},
		"no MGET":        {"on >pw ~* +@all -mget", "u:pw@", "its user may not use MGET: "},
		"no DEL":         {"on >pw ~* +@all -del", "u:pw@", "its user may not use DEL: "},
		"not all keys":   {"on >pw ~k* +@all", "u:pw@", "can't be read: NOPERM"},
		"no INFO":        {"on >pw ~* +@all -info", "u:pw@", "NOPERM"},
		"wrong password": {"on >pw ~* +@all", "u:secret@", "WRONGPASS"},
		"unknown user":   {"on >pw ~* +@all", "v:secret@", "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, nodes, 0, "CONFIG", "RESETSTAT")
			ask(t, nodes, 0, append([]string{"ACL", "SETUSER", "u", "reset"},
				strings.Fields(test.rules)...)...)
			m := start(t, []string{"redis://" + test.url + address}, nil)
			s := becomes(t, m, 0, link.Down, test.says)
			require.NotContains(t, s.Err.Error(), "secret")
			require.ErrorContains(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()),
				test.says)
			if executed := sets(t, nodes, 0); executed != "" {
				require.Contains(t, executed, "calls=0,")
			}
		})
	}
}

// The goal: a user who may do no more than the guard needs is admitted, also after the connection
// was lost.
func TestHandshake_NeedsFewPermissions(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	ask(t, nodes, 0, "ACL", "SETUSER", "u", "on", ">pw", "~*", "+hello", "+auth", "+ping", "+get",
		"+set", "+pttl", "+evalsha", "+info", "+del", "+mget", "+script|load", "+hgetall", "+hset",
		"+hdel", "+pexpire", "+time", "+exists", "+getrange", "+client|id", "+client|kill")
	m := start(t, []string{"redis://u:pw@" + strings.TrimPrefix(nodes.URLs()[0], "redis://")}, nil)
	for range 3 {
		up(t, m)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		line := m.nodes[0].Link.Current()
		require.NoError(t, line.Close())
		require.Eventually(t, func() bool { return m.nodes[0].Link.Current() != line }, patient,
			often)
	}
}

// The goal: a password that the server does not want is not held against it.
func TestHandshake_APasswordThatIsNotWantedIsForgiven(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, []string{strings.Replace(nodes.URLs()[0], "redis://", "redis://:pw@", 1)}, nil)
	up(t, m)
	ask(t, nodes, 0, "CONFIG", "SET", "requirepass", "another")
	require.NoError(t, m.nodes[0].Link.Current().Close())
	becomes(t, m, 0, link.Down, "WRONGPASS")
}

// The goal: who connects while a script keeps the server busy is told of changes and flushes all
// the same, later.
func TestHandshake_ABusyServerIsAskedAgain(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	ask(t, nodes, 0, "CONFIG", "SET", "busy-reply-threshold", "1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = nodes.Do(0, "EVAL", "while true do end", "0")
	}()
	require.Eventually(t, func() bool {
		_, err := nodes.Do(0, "GET", "k")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	}, patient, often)
	m := start(t, nodes.URLs(), mode(guard.Off))
	becomes(t, m, 0, link.Down, "BUSY")
	ask(t, nodes, 0, "SCRIPT", "KILL")
	<-done
	up(t, m)
	require.Regexp(t, "flags=[a-zA-Z]*t", ask(t, nodes, 0, "CLIENT", "LIST"))
}

// The goal: a server that sends anything but Redis fails its own node, with few words, and nothing
// else.
func TestHandshake_AHostileServerFailsOnlyItsNode(t *testing.T) {
	t.Parallel()
	good := servertest.Start(t, 2)
	for i := range good.Len() {
		ask(t, good, i, "SET", ids.AdmittedKey, runID(t, good, i))
	}
	for name, text := range map[string]string{
		"another protocol": "HTTP/1.1 400 Bad Request\r\n\r\n",
		"endless":          "+" + strings.Repeat("x", 1<<20),
		"huge":             "$999999999\r\n",
		"deep":             strings.Repeat("*1\r\n", 1<<16),
		"too much":         strings.Repeat("+OK\r\n", 1000),
		"turned away":      "-DENIED go away\r\n",
		"nothing":          "",
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, append([]string{"127.0.0.1:1"}, good.URLs()...), func(c *Config) {
				c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if address != "127.0.0.1:1" {
						return (&net.Dialer{}).DialContext(ctx, network, address)
					}
					client, server := net.Pipe()
					go func() { // it reads only as much as it must
						defer func() { _ = server.Close() }()
						_, _ = server.Read(make([]byte, 1))
						_, _ = server.Write([]byte(text))
					}()
					return client, nil
				}
			})
			s := becomes(t, m, 0, link.Down, "")
			require.Less(t, len(s.Err.Error()), 200)
			if name == "turned away" {
				require.ErrorContains(t, s.Err, "DENIED go away")
			}
			require.NoError(t, wait(m.Acquire(claim(name, "t"), time.Minute, 1), t.Context()))
		})
	}
}

// The goal: what can be no node is down at the first look, with and without the guard, and the
// error says what it is and what to give instead. Compatible servers are used as before.
func TestHandshake_AnUnfitServerSaysWhy(t *testing.T) {
	const cluster, sentinel = "it is a node of a Redis Cluster; give independent masters",
		"it is a Redis Sentinel"
	const id = "\r\nrun_id:one\r\nmaster_replid2:0"
	for lines, says := range map[string]string{
		"redis_version:7.0.15\r\nredis_mode:cluster":                         cluster,
		"redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nredis_mode:cluster":  cluster,
		"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nserver_mode:cluster": cluster,
		"redis_version:7.0.15\r\nredis_mode:sentinel":                        sentinel,
		"redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:sentinel":  sentinel,
		"redis_version:6.0.16\r\ngcc_version:10\r\nredis_mode:standalone": "it runs " +
			"Redis 6.0.16, which lacks",
		"redis_version:5.0.14":                         "it runs Redis 5.0.14, which lacks",
		"redis_version:6.2.0\r\nredis_mode:standalone": "",
		"redis_version:10.0.0":                         "",
		"redis_version:unknown":                        "",
		"redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nredis_mode:standalone":    "",
		"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nserver_mode:standalone":   "",
		"redis_version:4.0.0\r\nkvrocks_version:2.9.0":                            "",
		"redis_version:7.2.0\r\ndragonfly_version:df-v1.20\r\nredis_mode:cluster": "",
		"redis_mode:standalone": "",
	} {
		for _, g := range []guard.Mode{guard.Auto, guard.Off} {
			onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
				replies := guarded("one", "one")
				replies["INFO"] = resptest.Bulk(lines + id)
				actors[0].play(replies)
				actors[0].cut()
				time.Sleep(time.Second)
				status := m.Nodes()[0]
				if says == "" {
					require.Equal(t, link.Up, status.State, lines)
					return
				}
				require.Equal(t, link.Down, status.State, lines)
				require.ErrorContains(t, status.Err, says)
			}, mode(g))
		}
	}
}

// The goal: the error says what a server is also if the server knows none of the other commands, or
// refuses all of them.
func TestHandshake_AnUnfitServerExplainsItsOtherErrors(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		replies := map[string]string{
			"INFO": resptest.Bulk("redis_version:7.0.15\r\nredis_mode:sentinel"),
		}
		for command := range usual {
			if _, is := replies[command]; !is && command != "HELLO" {
				replies[command] = "-ERR unknown command\r\n"
			}
		}
		actors[0].play(replies)
		actors[0].cut()
		time.Sleep(time.Second)
		require.ErrorContains(t, m.Nodes()[0].Err, "it is a Redis Sentinel; give the masters")
	})
}

// The goal: a real node of a cluster is refused at the first look.
func TestHandshake_ANodeOfAClusterIsRefused(t *testing.T) {
	t.Parallel()
	s := startClusterNode(t)
	m := start(t, s.url(), nil)
	becomes(t, m, 0, link.Down, "it is a node of a Redis Cluster; give independent masters")
}

// The goal: a user who may not use INFO is told the remedy.
func TestHandshake_AUserWithoutINFOLearnsTheRemedy(t *testing.T) {
	t.Parallel()
	_, url := asUser(t, without(t, needed, "+info"), "")
	m := start(t, []string{url}, func(c *Config) { c.Prefix = "app:" })
	s := becomes(t, m, 0, link.Down, "the restart guard can't use INFO: NOPERM")
	require.ErrorContains(t, s.Err, "give the user +info, or use GuardOff")
}

// The goal: a connection that ends before any answer lets the client suggest TLS only while no
// server has answered there. It does not matter whether the connection was closed or reset.
func TestHandshake_TLSIsSuggestedOnlyIfNoServerHasAnswered(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		a := actors[0]
		a.hear(func(command string) {
			if command == "SCRIPT" {
				a.cut()
			}
		})
		a.cut()
		time.Sleep(time.Second)
		require.EqualError(t, m.Nodes()[0].Err, resp.ErrUnanswered.Error())
		a.hear(nil)
	})
}

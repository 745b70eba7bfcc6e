package multiplex

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// The goal: what can be no node is down at the first look, with and without the guard, and the
// error says what it is and what to give instead. Compatible servers are used as before.
func TestAServerThatCanBeNoNodeSaysWhy(t *testing.T) {
	const cluster, sentinel = "it is a node of a Redis Cluster; give independent masters",
		"it is a Redis Sentinel"
	const id = "\r\nrun_id:one\r\nuptime_in_seconds:100"
	for lines, says := range map[string]string{
		"redis_version:7.0.15\r\nredis_mode:cluster":                              cluster,
		"redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nredis_mode:cluster":       cluster,
		"redis_version:7.0.15\r\nredis_mode:sentinel":                             sentinel,
		"redis_version:6.0.16\r\ngcc_version:10\r\nredis_mode:standalone":         "it runs Redis 6.0.16, which lacks",
		"redis_version:5.0.14":                                                    "it runs Redis 5.0.14, which lacks",
		"redis_version:6.2.0\r\nredis_mode:standalone":                            "",
		"redis_version:10.0.0":                                                    "",
		"redis_version:unknown":                                                   "",
		"redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nredis_mode:standalone":    "",
		"redis_version:4.0.0\r\nkvrocks_version:2.9.0":                            "",
		"redis_version:7.2.0\r\ndragonfly_version:df-v1.20\r\nredis_mode:cluster": "",
		"redis_mode:standalone":                                                   "",
	} {
		for _, g := range []GuardMode{GuardAuto, GuardOff} {
			onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
				replies := guarded("one", "one", 100)
				replies["INFO"] = resptest.Bulk(lines + id)
				actors[0].play(replies)
				actors[0].cut()
				time.Sleep(time.Second)
				status := m.Nodes()[0]
				if says == "" {
					require.Equal(t, NodeUp, status.State, lines)
					return
				}
				require.Equal(t, NodeDown, status.State, lines)
				require.ErrorContains(t, status.Err, says)
			}, mode(g))
		}
	}
}

// The goal: the error says what a server is also if the server knows none of the other commands, or
// refuses all of them.
func TestWhatAServerIsExplainsItsOtherErrors(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		replies := map[string]string{"INFO": resptest.Bulk("redis_version:7.0.15\r\nredis_mode:sentinel")}
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
func TestANodeOfAClusterIsRefused(t *testing.T) {
	t.Parallel()
	s := startClusterNode(t)
	m := start(t, s.url(), nil)
	becomes(t, m, 0, NodeDown, "it is a node of a Redis Cluster; give independent masters")
}

// The goal: a user who may not use INFO is told the remedy.
func TestAUserWithoutINFOIsToldTheRemedy(t *testing.T) {
	t.Parallel()
	_, url := asUser(t, without(t, needed, "+info"), "")
	m := start(t, []string{url}, func(c *Config) { c.Prefix = "app:" })
	s := becomes(t, m, 0, NodeDown, "the restart guard can't use INFO: NOPERM")
	require.ErrorContains(t, s.Err, "give the user +info, or use GuardOff")
}

// The goal: a connection that ends before any answer lets the client suggest TLS only while no
// server has answered there. It does not matter whether the connection was closed or reset.
func TestTLSIsSuggestedOnlyIfNoServerHasAnswered(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		a := actors[0]
		a.hear(func(command string) {
			if command == "SCRIPT" {
				a.cut()
			}
		})
		a.cut()
		time.Sleep(time.Second)
		require.EqualError(t, m.Nodes()[0].Err, errUnanswered.Error())
		a.hear(nil)
	})
}

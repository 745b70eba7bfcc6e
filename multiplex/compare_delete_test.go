package multiplex

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: a server's own command is used if its reply in the handshake shows that it is there and
// permitted. After any other reply the script is used. That never keeps the node from being up.
func TestCompareDelete_UsesTheCommandsThatTheServerHas(t *testing.T) {
	byScript := []string{"EVALSHA 3"}
	type server struct {
		speaks commandSupport
		want   []string
	}
	servers := map[string]server{
		"Redis 8.4":  {redis84, several(3, "DELEX")},
		"Valkey 9.0": {valkey90, several(3, "DELIFEQ")},
		"both":       {commandSupport{"DELEX": does, "DELIFEQ": does}, several(3, "DELIFEQ")},
		"Redis 7.0":  {redis70, byScript},
		"one is not permitted": {
			commandSupport{
				"DELEX":   does,
				"DELIFEQ": "-NOPERM User u has no permissions to run the 'delifeq' command\r\n",
			}, several(3, "DELEX"),
		},
	}
	for _, odd := range []string{
		"-NOPERM User u has no permissions to run the 'delex' command\r\n",
		"-NOPERM No permissions to access a key\r\n",
		"-ERR syntax error\r\n", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE\r\n",
		"-ERR wrong number of arguments for 'delex' command\r\n",
		"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
		"-READONLY You can't write against a read only replica.\r\n",
		"-BUSY Redis is busy running a script.\r\n", "+OK\r\n", "+0\r\n", "$1\r\n0\r\n", "$-1\r\n",
		":1\r\n", ":-1\r\n", ":2\r\n", "*0\r\n", "*1\r\n:0\r\n",
	} {
		support := commandSupport{"DELEX": odd, "DELIFEQ": odd}
		servers[fmt.Sprintf("%q", odd)] = server{support, byScript}
	}
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
				require.Equal(t, several(3, done), flushed(m, all[0].let(t, m, "k", 3)))
				require.Equal(t, s.want, all[0].releases())
				require.Empty(t, all[0].redis.Keys())
			}, s.speaks)
		})
	}
}

// The goal: each node is sent the command that it knows.
func TestCompareDelete_EachNodeHasItsOwnCommand(t *testing.T) {
	withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		synctest.Wait()
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		synctest.Wait()
		for i, want := range []string{"DELEX", "DELIFEQ", "EVALSHA 1"} {
			require.Equal(t, []string{want}, all[i].releases())
			require.Empty(t, all[i].redis.Keys())
		}
	}, redis84, valkey90, redis70)
}

// The goal: whatever the key is, a release succeeds in each way, and deletes only what has the
// claim's token.
func TestCompareDelete_DeletesOnlyTheClaimsToken(t *testing.T) {
	for name, d := range map[string]commandSupport{
		"DELEX": redis84, "DELIFEQ": valkey90,
		"script": redis70,
	} {
		t.Run(name, func(t *testing.T) {
			withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
				l := all[0]
				attempts := l.let(t, m, "k", 5)
				require.NoError(t, l.redis.Set("k1", "another's"))
				l.redis.Del("k2")
				l.redis.Del("k3")
				_, err := l.redis.Push("k3", "k3")
				require.NoError(t, err)
				for range 2 { // the second time nothing is ours
					require.Equal(t, several(5, done), flushed(m, attempts))
					require.Equal(t, []string{"k1", "k3"}, l.redis.Keys())
				}
				value, err := l.redis.Get("k1")
				require.NoError(t, err)
				require.Equal(t, "another's", value)
				list, err := l.redis.List("k3")
				require.NoError(t, err)
				require.Equal(t, []string{"k3"}, list)
			}, d)
		})
	}
}

// The goal: if the command is of no use any more, or has an impossible reply, the script releases
// at once. From then on the script is used on that connection. No caller notices.
func TestCompareDelete_FallsBackToTheScript(t *testing.T) {
	for _, reply := range []string{
		"-NOPERM User u has no permissions to run the 'delex' command\r\n",
		"-ERR unknown command 'DELEX'\r\n", "-ERR syntax error\r\n", "-LOADING\r\n",
		"-ERR Key should be of string type if conditions are specified\r\n", "+OK\r\n", "$-1\r\n",
		"_\r\n", ":2\r\n", ":-1\r\n", "$1\r\n1\r\n", "*0\r\n", "#t\r\n",
	} {
		withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
			l := all[0]
			l.learn(commandSupport{"DELEX": reply})
			require.Equal(t, several(3, done), flushed(m, l.let(t, m, "k", 3)), reply)
			require.Equal(t, append(several(3, "DELEX"), several(3, "EVALSHA 1")...), l.releases(),
				reply)
			require.Empty(t, l.redis.Keys())
			require.Equal(t, several(3, done), flushed(m, l.let(t, m, "k", 3)), reply)
			require.Equal(t, []string{"EVALSHA 3"}, l.releases(), reply)
			require.Empty(t, l.redis.Keys())
			l.learn(redis84)
			l.cut()
			time.Sleep(time.Second)
			up(t, m)
			require.Equal(t, several(3, done), flushed(m, l.let(t, m, "k", 3)), reply)
			require.Equal(t, several(3, "DELEX"), l.releases(), reply)
		}, redis84)
	}
}

// The goal: a release that the server declines in both ways fails alone.
func TestCompareDelete_AReleaseThatIsDeclinedTwiceFailsAlone(t *testing.T) {
	withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
		l := all[0]
		l.learn(redis70)
		l.noKey = "k1"
		answers := flushed(m, l.let(t, m, "k", 3))
		require.Equal(t, done, answers[0])
		require.Equal(t, unknown, answers[1].vote)
		require.ErrorContains(t, answers[1].err, "NOPERM")
		require.Equal(t, done, answers[2])
		require.Equal(t, []string{"k1"}, l.redis.Keys())
	}, redis84)
}

// The goal: a release whose connection breaks is unknown. The flush does not send it once more:
// there is nothing to send it on.
func TestCompareDelete_ABrokenConnectionIsUnknown(t *testing.T) {
	withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
		l := all[0]
		l.learn(commandSupport{"DELEX": hangsUp})
		a := flushed(m, l.let(t, m, "k", 1))[0]
		require.Equal(t, unknown, a.vote)
		require.True(t, a.broken)
		require.False(t, a.leftNothing || a.replied)
		require.Equal(t, []string{"DELEX"}, l.releases())
	}, redis84)
}

// The goal: a release whose connection breaks is sent again with the command of the server behind
// the next one, whether that is older or newer.
func TestCompareDelete_AKeptReleaseUsesTheNextServersCommand(t *testing.T) {
	for _, change := range []struct {
		before, after commandSupport
		want          []string
	}{
		{redis84, redis70, []string{"DELEX", "EVALSHA 1", "EVALSHA 1"}},
		{redis84, valkey90, []string{"DELEX", "DELIFEQ", "DELIFEQ"}},
		{valkey90, redis84, []string{"DELIFEQ", "DELEX", "DELEX"}},
	} {
		withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
			l, c := all[0], claim("k", "t")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			l.learn(commandSupport{"DELEX": hangsUp, "DELIFEQ": hangsUp})
			l.next = change.after
			_ = wait(m.Release(c, 1), t.Context())
			time.Sleep(time.Second)
			require.Empty(t, l.redis.Keys())
			up(t, m)
			c = claim("k", "t2")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			require.NoError(t, wait(m.Release(c, 1), t.Context()))
			require.Equal(t, change.want, l.releases())
			require.Empty(t, l.redis.Keys())
		}, change.before)
	}
}

// The goal: a few single keys are released by commands. Many are released by the script, and so are
// sets. Acquires of the same flush come behind.
func TestCompareDelete_IsForFewSingleKeys(t *testing.T) {
	for few, want := range map[int][]string{
		0: {"EVALSHA 6"}, 1: {"DELEX", "EVALSHA 6"},
		maxSingleReleases:     append(several(maxSingleReleases, "DELEX"), "EVALSHA 6"),
		maxSingleReleases + 1: {"EVALSHA 6", fmt.Sprint("EVALSHA ", maxSingleReleases+1)},
	} {
		withCommandServers(t, func(t *testing.T, m *Mux, all []*commandServer) {
			l := all[0]
			attempts := l.let(t, m, "k", few)
			for i := range 2 {
				c, keys := new(Claim), []string{
					fmt.Sprint("s", i), fmt.Sprint("t", i),
					fmt.Sprint("u", i),
				}
				c.Init("", keys, "set")
				for _, key := range keys {
					require.NoError(t, l.redis.Set(key, "set"))
				}
				attempts = append(attempts, m.newAttempt(c, release, time.Minute, time.Second,
					time.Minute))
			}
			for i := range few { // each wants a key that is released
				attempts = append(attempts, m.newAttempt(claim(fmt.Sprint("k", i), "next"), acquire,
					time.Minute, time.Second, time.Minute))
			}
			require.Equal(t, several(2*few+2, done), flushed(m, attempts))
			require.Equal(t, want, l.releases())
			require.Len(t, l.redis.Keys(), few)
			for _, key := range l.redis.Keys() {
				value, err := l.redis.Get(key)
				require.NoError(t, err)
				require.Equal(t, "next", value)
			}
		}, redis84)
	}
}

// The goal: on a connection that is not verified, or without one, nothing is assumed about the
// server.
func TestCompareDelete_NeedsAVerifiedConnection(t *testing.T) {
	var c activeConn
	require.Equal(t, viaScript, c.verified().deleteCommand())
	l := new(nodeConn)
	l.deletion.Store(int32(viaDELEX))
	c.conn.Store(l)
	require.Equal(t, viaScript, c.verified().deleteCommand())
	l.state.Store(connVerified)
	require.Equal(t, viaDELEX, c.verified().deleteCommand())
	l.state.Store(connDead)
	require.Equal(t, viaScript, c.verified().deleteCommand())
}

package lockpipe_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// startScript keeps the node busy with a script that never ends.
func startScript(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	do(t, nodes, i, "CONFIG", "SET", "lua-time-limit", "10") // as 6.2 calls it too
	go func() { _, _ = nodes.Do(i, "EVAL", "while true do end", "0") }()
	eventually(t, func() bool { return complains(nodes, i, "BUSY") }, "node %d is not busy", i)
}

func endScript(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	do(t, nodes, i, "SCRIPT", "KILL")
	eventually(t, func() bool { return !complains(nodes, i, "") }, "node %d is busy for ever", i)
}

func complains(nodes *lockpipetest.Nodes, i int, word string) bool {
	_, err := nodes.Do(i, "PING")
	return err != nil && strings.Contains(err.Error(), word)
}

// nothingOfOurs waits until the foreign key is the only one on the nodes, and wants it untouched.
func nothingOfOurs(t *testing.T, nodes *lockpipetest.Nodes, which []int, foreign string) {
	t.Helper()
	for _, i := range which {
		eventually(t, func() bool {
			keys, err := ownKeys(nodes, i)
			return err == nil && len(keys) == 1 && keys[0] == prefix+foreign
		}, "node %d has something else than %s, or lost it", i, foreign)
		require.Equal(t, "another", value(t, nodes, i, foreign))
	}
}

// address is how errors and Nodes name node i.
func address(nodes *lockpipetest.Nodes, i int) string {
	return strings.TrimPrefix(nodes.URLs()[i], "redis://")
}

func addresses(nodes *lockpipetest.Nodes, which []int) []string {
	all := make([]string, len(which))
	for k, i := range which {
		all[k] = address(nodes, i)
	}
	return all
}

// do sends a command that must succeed.
func do(t *testing.T, nodes *lockpipetest.Nodes, i int, args ...string) any {
	t.Helper()
	reply, err := nodes.Do(i, args...)
	require.NoError(t, err)
	return reply
}

// value is what the client's key has on node i; "" where it is not set.
func value(t *testing.T, nodes *lockpipetest.Nodes, i int, key string) string {
	t.Helper()
	v, _ := do(t, nodes, i, "GET", prefix+key).(string)
	return tokenOf(v)
}

// tokenOf returns the token in a value, or all of it if another client made it.
func tokenOf(value string) string {
	of, _ := ids.SplitValue(value)
	return of
}

// onEvery waits until the key has the value on all of these nodes. "" stands for not set.
func onEvery(t *testing.T, nodes *lockpipetest.Nodes, which []int, key, want string) {
	t.Helper()
	for _, i := range which {
		eventually(t, func() bool {
			v, err := nodes.Do(i, "GET", prefix+key)
			got, _ := v.(string)
			return err == nil && tokenOf(got) == want
		}, "node %d: key %s does not become %q", i, key, want)
	}
}

// onQuorum wants the key to have the value on a quorum of these nodes. Of a key that was just
// granted, the others may have missed it: the machine may stop a node for a moment.
func onQuorum(t *testing.T, nodes *lockpipetest.Nodes, which []int, key, want string) {
	t.Helper()
	has := 0
	for _, i := range which {
		if value(t, nodes, i, key) == want {
			has++
		}
	}
	require.Greater(t, has, len(which)/2, "key %s is on too few nodes", key)
}

// nothingLeft waits until no key of the clients under test is on any of these nodes, all by
// default.
func nothingLeft(t *testing.T, nodes *lockpipetest.Nodes, which ...int) {
	t.Helper()
	if len(which) == 0 {
		which = span(0, nodes.Len())
	}
	for _, i := range which {
		var keys []string
		var err error
		ok := func() bool {
			keys, err = ownKeys(nodes, i)
			return err == nil && len(keys) == 0
		}
		if !poll(ok) {
			require.NoError(t, err)
			require.Emptyf(t, keys[:min(len(keys), 5)], "keys are left behind on node %d, %d in all",
				i, len(keys))
		}
	}
}

// ownKeys leaves out the companions that a client keeps for its locks.
func ownKeys(nodes *lockpipetest.Nodes, i int) ([]string, error) {
	keys, err := nodes.Keys(i, prefix)
	var own []string
	for _, k := range keys {
		if !strings.HasPrefix(k, prefix+"lockpipe:") {
			own = append(own, k)
		}
	}
	return own, err
}

// poll is eventually without an end of the test.
func poll(condition func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	tick := time.NewTicker(often)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// caughtUp returns when every node has executed what the client had sent it before: a later lease
// is seen on all of them.
func caughtUp(t *testing.T, c *lockpipe.Client, nodes *lockpipetest.Nodes) {
	t.Helper()
	n := 0
	ok := poll(func() bool {
		n++
		key := fmt.Sprintf("barrier:%d", n)
		l, err := c.TryAcquire(t.Context(), key)
		if err != nil {
			return false
		}
		defer func() { _ = l.Release(t.Context()) }()
		for i := range nodes.Len() {
			v, err := nodes.Do(i, "GET", prefix+key)
			if got, _ := v.(string); err != nil || tokenOf(got) != l.Token() {
				return false
			}
		}
		return true
	})
	require.True(t, ok, "a node does not catch up")
}

// converse sends commands in the inline form over one connection to node i, and wants none to be
// answered with an error.
func converse(t *testing.T, nodes *lockpipetest.Nodes, i int, commands ...string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address(nodes, i), patient)
	require.NoError(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, command := range commands {
		_, err := fmt.Fprintf(conn, "%s\r\n", command)
		require.NoError(t, err)
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.NotEqual(t, byte('-'), line[0], "%s: %s", command, line)
	}
}

package main

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/owned"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// inMemory starts nodes in memory.
func inMemory(t *testing.T) *lockpipetest.Nodes {
	t.Helper()
	nodes, err := lockpipetest.StartInProcess(3)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nodes.Close() })
	return nodes
}

// ofOwner returns a Client with this owner, whose keys begin with "app:".
func ofOwner(t *testing.T, nodes *lockpipetest.Nodes, owner string) *lockpipe.Client {
	t.Helper()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), Owner: owner, Prefix: "app:", TTL: 10 * time.Minute,
		NodeTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(t.Context()) })
	return client
}

// hold takes a key on all nodes.
func hold(t *testing.T, client *lockpipe.Client, key string) *lockpipe.Lease {
	t.Helper()
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(client.Nodes(), func(n lockpipe.NodeStatus) bool {
			return n.State != lockpipe.NodeUp
		})
	}, time.Minute, time.Millisecond)
	lease, err := client.TryAcquire(t.Context(), key)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, err := client.Peek(t.Context(), []string{key})
		return err == nil && status[0].Nodes == len(client.Nodes())
	}, time.Minute, time.Millisecond)
	return lease
}

// testReleaseOwner is about three nodes.
func testReleaseOwner(t *testing.T, nodes *lockpipetest.Nodes) {
	dead, alive := ofOwner(t, nodes, "web-1:7"), ofOwner(t, nodes, "web-1:77")
	hold(t, dead, "b")
	hold(t, dead, "a")
	require.NoError(t, hold(t, dead, "kept").Keep(t.Context(), time.Hour))
	for i, end := range []string{" A", "B", "C"} { // what is kept on one node only
		_, err := nodes.Do(i, "SET", "app:half", strings.Repeat("A", 27)+"@web-1:7"+end)
		require.NoError(t, err)
	}
	hold(t, alive, "c")
	for i := range nodes.Len() { // what is no lock
		_, err := nodes.Do(i, "ZADD", "app:scores", "1", "x")
		require.NoError(t, err)
		_, err = nodes.Do(i, "SET", "app:text", "web-1:7")
		require.NoError(t, err)
	}
	keys := func() (all []string) {
		for i := range nodes.Len() {
			some, err := nodes.Keys(i, "")
			require.NoError(t, err)
			all = append(all, some...)
		}
		return all
	}
	before := keys()
	args := []string{
		"-release-owner", "web-1:7", "-nodes", strings.Join(nodes.URLs(), ","), "-prefix", "app:",
	}
	code, stdout, stderr := loadgen(t.Context(), args...)
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	require.Regexp(t, `keys that web-1:7 holds on [^\n]*\n\nkey  nodes   freed  left\n`+
		`"a"  3 of 3  0      9m5\S+s\n"b"  3 of 3  0      9m5\S+s\n\n2 keys\. Nothing was freed\. If no `+
		`process with the owner web-1:7 runs any more, give -yes too: that frees them\.\n2 keys more `+
		`left by Lease\.Keep: they stay until their time has passed\.\n$`, stdout)
	require.Equal(t, before, keys())

	code, stdout, stderr = loadgen(t.Context(), append(args, "-yes", "-json", "-")...)
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	var found owned.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	for i, key := range []string{"a", "b"} {
		require.InDelta(t, 600, found.Keys[i].LeftS, 60)
		found.Keys[i].LeftS = 0
		require.Equal(t, owned.Key{Key: key, Nodes: 3, Freed: 3}, found.Keys[i])
	}
	require.Len(t, found.Keys, 2)
	require.Equal(t, 2, found.Kept)
	require.Equal(t, []string{"web-1:77"}, found.Others)
	hold(t, alive, "a")
	hold(t, alive, "b")
	status, err := alive.Peek(t.Context(), []string{"kept", "c"})
	require.NoError(t, err)
	require.Equal(t, "web-1:7", status[0].Owner)
	require.Equal(t, "web-1:77", status[1].Owner)
	require.ElementsMatch(t, before, keys())

	code, stdout, _ = loadgen(t.Context(), append(args, "-yes")...)
	require.Equal(t, exitSafe, code)
	require.Contains(t, stdout, "\n0 keys. Other owners have keys: web-1:77.\n")
}

// Goal: what an owner holds is listed and stays, and with -yes it is free at once. What others
// hold, what was kept, and what is no lock stays.
func TestReleaseOwner_FreesWhatItHolds(t *testing.T) {
	t.Parallel()
	t.Run("redis-server", func(t *testing.T) { testReleaseOwner(t, servertest.Start(t, 3)) })
	t.Run("in memory", func(t *testing.T) { testReleaseOwner(t, inMemory(t)) })
}

// Goal: a node that is down is named, and makes the run a failure. The others are freed.
func TestReleaseOwner_NamesTheNodeThatIsDown(t *testing.T) {
	t.Parallel()
	nodes := inMemory(t)
	hold(t, ofOwner(t, nodes, "web-1:7"), "a")
	require.NoError(t, nodes.Kill(1))
	urls := nodes.URLs()
	args := []string{
		"-release-owner", "web-1:7", "-nodes", strings.Join(urls, ","), "-prefix", "app:",
	}
	code, stdout, stderr := loadgen(t.Context(), append(args, "-yes")...)
	require.Equal(t, exitUnsafe, code)
	require.Contains(t, stderr, strings.TrimPrefix(urls[1], "redis://")+": dial")
	require.Contains(t, stdout, "\n\"a\"  2 of 3  2      ")
	require.Contains(t, stdout, "\n1 key, freed on each node that answered.\n")
}

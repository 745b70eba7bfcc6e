package lockpipe_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a node that may evict locks is one warning of the log, with its policy and what to do,
// however often it is connected. Another policy is another warning.
func TestEviction_IsLoggedOnce(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 2)
	do(t, nodes, 0, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	var log lockedBuffer
	c := connected(t, newClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}))
	reconnect := func() {
		ups := strings.Count(log.String(), "node is up")
		do(t, nodes, 0, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		eventually(t, func() bool { return strings.Count(log.String(), "node is up") > ups },
			"the node does not come back")
		connected(t, c)
	}
	const warning = "level=WARN msg=\"lockpipe: node may evict locks while they are held: set its " +
		"maxmemory-policy to noeviction\" node="
	lru := warning + address(nodes, 0) + " maxmemory-policy=volatile-lru"
	for range 3 {
		require.Equal(t, 1, strings.Count(log.String(), lru), log.String())
		reconnect()
	}
	do(t, nodes, 0, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	reconnect()
	require.Contains(t, log.String(), "maxmemory-policy=allkeys-random")
	require.Equal(t, 2, strings.Count(log.String(), warning))
}

package nodes

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a node that may evict locks is one warning of the log, with its policy and what to do,
// however often it is connected. Another policy is another warning.
func TestEviction_IsLoggedOnce(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 2)
	kit.Do(t, nodes, 0, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	var log kit.LockedBuffer
	c := kit.Connected(t, kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}))
	reconnect := func() {
		ups := strings.Count(log.String(), "node is up")
		kit.Do(t, nodes, 0, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		kit.Eventually(t, func() bool { return strings.Count(log.String(), "node is up") > ups },
			"the node does not come back")
		kit.Connected(t, c)
	}
	const warning = "level=WARN msg=\"lockpipe: node may evict locks while they are held: set its " +
		"maxmemory-policy to noeviction\" node="
	lru := warning + kit.Address(nodes, 0) + " maxmemory-policy=volatile-lru"
	for range 3 {
		require.Equal(t, 1, strings.Count(log.String(), lru), log.String())
		reconnect()
	}
	kit.Do(t, nodes, 0, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	reconnect()
	require.Contains(t, log.String(), "maxmemory-policy=allkeys-random")
	require.Equal(t, 2, strings.Count(log.String(), warning))
}

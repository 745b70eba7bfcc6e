package preflight

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// The goal: what any kind of server shows of itself is understood, and what it does not show stays
// zero.
func TestFacts_ReadInfo(t *testing.T) {
	for name, tc := range map[string]struct {
		info            string
		server, version string
		master          string
		maxMemory       uint64
	}{
		"a master": {
			info: "# Server\nredis_version:7.0.15\nredis_mode:standalone\n# Memory\n" +
				"maxmemory:4194304\n# Replication\nrole:master\n# Cluster\ncluster_enabled:0",
			server: "Redis", version: "7.0.15", maxMemory: 4 << 20,
		},
		"a replica": {info: "role:slave\nmaster_host:::1\nmaster_port:6380", master: "[::1]:6380"},
		"a replica of Valkey": {
			info: "redis_version:7.2.4\nvalkey_version:8.1.0\nrole:replica\nmaster_host:h\n" +
				"master_port:1",
			server: "Valkey", version: "8.1.0", master: "h:1",
		},
		"another": {
			info:   "redis_version:7.2.0\ndragonfly_version:df-v1.20\nredis_mode:cluster",
			server: "Dragonfly", version: "df-v1.20",
		},
		"a Sentinel of Valkey": {
			info:   "valkey_version:9.1.2\nserver_mode:sentinel",
			server: "Valkey", version: "9.1.2",
		},
		"nonsense": {info: "# Odd\n\n:\nredis_version\nmaxmemory:much\nmaxclients:-1"},
		"nothing":  {},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			var f Facts
			v := interview{facts: &f}
			text := strings.ReplaceAll(tc.info, "\n", end)
			require.NoError(t, v.info().OnReply(resp.Value{Kind: '$', Text: "txt:" + text}))
			server, version := f.server()
			require.Equal(t, tc.server+tc.version, server+version, name)
			master, isReplica := f.master()
			require.Equal(t, tc.master, master, name)
			require.Equal(t, tc.master != "", isReplica, name)
			require.Equal(t, tc.maxMemory, f.number("maxmemory"), name)
			require.Zero(t, f.number("maxclients"), name)
		}
	}
}

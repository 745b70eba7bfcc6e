package inspection

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: what any kind of server shows of itself is understood, and what it does not show stays
// zero.
func TestFacts_ReadInfo(t *testing.T) {
	for _, tc := range []struct {
		name, info string
		want       Facts
	}{
		{"a master", `txt:# Server
redis_version:7.0.15
redis_mode:standalone
run_id:abc
# Clients
connected_clients:12
maxclients:10000
# Memory
used_memory:1048576
maxmemory:4194304
maxmemory_policy:noeviction
# Persistence
loading:0
rdb_last_bgsave_status:ok
aof_enabled:1
aof_last_write_status:ok
# Replication
role:master
master_replid:def
# Cluster
cluster_enabled:0`, Facts{
			Server: "Redis", Version: "7.0.15", RedisVersion: "7.0.15",
			RunID: "abc", ReplicationID: "def",
			Memory: 1 << 20, MaxMemory: 4 << 20,
			Policy: "noeviction", Clients: 12, MaxClients: 10000, AOF: true,
		}},
		{
			"a replica that loads",
			"role:slave\nmaster_host:::1\nmaster_port:6380\nloading:1\naof_last_write_status:err",
			Facts{
				Replica: true, Master: "[::1]:6380", Loading: true, LastSaveFailed: true,
			},
		},
		{
			"a replica of Valkey",
			"redis_version:7.2.4\nvalkey_version:8.1.0\nrole:replica\nmaster_host:h\nmaster_port:1\nasync_loading:1",
			Facts{
				Server: "Valkey", Version: "8.1.0", RedisVersion: "7.2.4", Replica: true,
				Master:  "h:1",
				Loading: true,
			},
		},
		{
			"another",
			"redis_version:7.2.0\ndragonfly_version:df-v1.20\nredis_mode:cluster\nrdb_last_bgsave_status:err",
			Facts{
				Server: "Dragonfly", Version: "df-v1.20", RedisVersion: "7.2.0", Cluster: true,
				LastSaveFailed: true,
			},
		},
		{"a Sentinel of Valkey", "valkey_version:9.1.2\nserver_mode:sentinel", Facts{
			Server: "Valkey", Version: "9.1.2", Sentinel: true,
		}},
		{"of cluster_enabled alone", "cluster_enabled:1", Facts{Cluster: true}},
		{"no headings", "txt:redis_version:6.2.0\nrun_id:x", Facts{
			Server:  "Redis",
			Version: "6.2.0", RedisVersion: "6.2.0", RunID: "x",
		}},
		{"nonsense", "# Odd\n\n:\nredis_version\nmaxmemory:much\nmaxclients:-1", Facts{}},
		{"nothing", "", Facts{}},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			var f Facts
			f.readInfo(strings.ReplaceAll(tc.info, "\n", end))
			require.Equal(t, f.RunID, f.Info["run_id"])
			f.Info = nil // tested with its parser
			require.Equal(t, tc.want, f, tc.name)
		}
	}
}

// The goal: settings are understood.
func TestFacts_ReadConfig(t *testing.T) {
	var f Facts
	f.readConfig(map[string]string{
		"appendfsync": "always", "no-appendfsync-on-rewrite": "no",
		"other": "yes",
	})
	f.readConfig(map[string]string{"save": "60 1"})
	f.readConfig(map[string]string{"repl-backlog-ttl": "3600"})
	require.Equal(t, Facts{Fsync: "always", Snapshots: "60 1", BacklogTTL: time.Hour}, f)
	f.readConfig(map[string]string{"no-appendfsync-on-rewrite": "yes"})
	require.True(t, f.Rewriting)
}

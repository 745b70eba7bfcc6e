package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/series"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

func TestMain(m *testing.M) {
	servertest.RunMoreAtOnce(2)
	m.Run()
}

// loadgen runs the program and returns its exit code and what it printed.
func loadgen(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes more than a second")
	}
}

func pointer(v float64) *float64 { return &v }

// Goal: wrong usage ends with 2 and one message that names the flag and its value, before anything
// is started.
func TestFlags_WrongUsage(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-c -1", `-c "-1": give`},
		{"-c 0", `-c "0": give`},
		{"-c many", `"many"`},
		{"-scenario warm", `-scenario "warm": choose`},
		{"-nodes local:none", `-nodes "local:none": give`},
		{"-cluster 4", `-nodes "cluster:4": give cluster:N with N masters: 3,`},
		{"-cluster 3 -nodes local:3", `-cluster "3": it starts the nodes; leave out -nodes`},
		{"-cluster 3 -groups 3", `-groups "3": a Redis Cluster is one group; leave it 1`},
		{"-inspect -cluster 3 -groups 3", `-groups "3": a Redis Cluster is one group`},
		{
			"-cluster 3 -faults demote:1@1s+1s",
			`-faults "demote:1@1s+1s": fault 1: demote does not happen to nodes that are in a`,
		},
		{
			"-faults deposed:1@1s+1s",
			`-faults "deposed:1@1s+1s": fault 1: deposed does not happen to nodes that`,
		},
		{"-nodes ftp://h", `-nodes "entry 1": has the scheme ftp`},
		{"-nodes redis://me:secret@h:port", `-nodes "entry 1":`},
		{"-batch 10 -keys 5", `-batch "10": give`},
		{"-scenario batch -batch 10 -keys 5", `-batch "10": give`},
		{"-scenario each -batch 0", `-batch "0": give`},
		{"-rate -1", `-rate "-1": give`},
		{"-d 0s", `-d "0s": give`},
		{"-d 10", `"10"`},
		{"-keys 0", `-keys "0": give`},
		{"-scenario batch -keys 0", `-keys "0": give`},
		{"-scenario hot -hot 0", `-hot "0": give 1 to`},
		{"-scenario hot -hot -3 -keys 5", `-hot "-3": give 1 to`},
		{"-scenario hot -hot 10000001", `-hot "10000001": give 1 to`},
		{"-scenario hot -keys 0", `-keys "0": give`},
		{"-scenario hot -hot many", `"many"`},
		{"-hot 5", `-hot "5": scenario single has no hot keys; give -keys`},
		{"-scenario cart -hot 0", `-hot "0": give 1 to`},
		{"-scenario cart -hot 1 -keys 0", `-keys "0": give`},
		{"-scenario cart -keys 3 -others 4", `-others "4": give 0 to the 3 keys`},
		{"-scenario cart -cold 16129", `-cold "16129": give 0 to 16128`},
		{"-others 2", `-others "2": only the scenarios cart and combine have it`},
		{"-scenario hot -cold 2", `-cold "2": only the scenarios cart and combine have it`},
		{"-scenario batch -hot 5", `-hot "5": scenario batch has no hot keys; give -keys`},
		{"-hold -1s", `-hold "-1s": give`},
		{"-scenario hold -leases 0", `-leases "0": give`},
		{"-scenario hold -leases 10000001", `-leases "10000001": give`},
		{"-scenario hold -ttl 61s", `-ttl "1m1s": give`},
		{"-autoextend -1s", `-autoextend "-1s": give`},
		{
			"-faults flush:1@1s -nodes inprocess:3",
			`-faults "flush:1@1s": faults happen only to redis-servers that the run starts`,
		},
		{
			"-faults flush:1@1s -nodes a:1,b:2,c:3",
			`-faults "flush:1@1s": faults happen only to redis-servers that the run starts`,
		},
		{
			"-faults flush:1@1s,melt:2@1s",
			`-faults "melt:2@1s": fault 2: no action is called "melt"; choose`,
		},
		{"-ttl 1ms", `-ttl "1ms": give`},
		{"-groups 0", `-groups "0": give at least 1`},
		{"-scenario move -nodes local:5", `-nodes "local:5": scenario move needs an even`},
		{"-scenario move -clients 1", `-clients "1": scenario move`},
		{"-scenario move -d 20s", `-d "20s": scenario move needs at least 30s`},
		{"-groups 2", `-groups "2": 5 nodes can't be divided`},
		{"-clients 0", `-clients "0": give`},
		{"-clients 9 -c 8", `-clients "9": give`},
		{"-nosuch", "-nosuch"},
		{"extra", `"extra"`},
		{"-inspect -nodes redis://me:secret@h:port", `-nodes "entry 1":`},
		{"-inspect -nodes h:1,h:1", `-nodes "h:1,h:1":`},
		{"-inspect -guard lax", `-guard "lax": give auto, strict or off`},
		{"-inspect -max-ttl 10", `"10"`},
		{"-inspect -max-ttl -1s", `-max-ttl "-1s": lockpipe: `},
		{"-inspect -max-ttl 1ms", "Config.MaxTTL is 1ms: give at least 10ms"},
		{"-inspect -prefix lockpipe:x", `-prefix "lockpipe:x": lockpipe: `},
		{"-inspect -prefix lockpipe:x", "give one that begins otherwise"},
		{"-inspect -next inprocess:none", `-next "inprocess:none": give`},
		{"-inspect -nodes h:1 -next redis://me:secret@h:port", `-next "entry 1":`},
		{"-inspect -nodes h:1 -next redis://me:secret@h:1/2", "is another database of h:1"},
		{"-inspect -nodes h:1,h:2 -groups 2 -next h:3", `-groups "2": 1 nodes can't be divided`},
		{"-guard strict", `-guard "strict": only -inspect uses it; leave it out, or give -inspect`},
		{"-max-ttl 1m", `-max-ttl "1m0s": only -inspect uses it`},
		{"-prefix app:", `-prefix "app:": only -inspect or -release-owner uses it`},
		{"-yes", `-yes "true": only -release-owner uses it; leave it out, or give`},
		{"-release-owner= -nodes h:1", `-release-owner "": give an owner, as Peek`},
		{"-release-owner web-1:7 -inspect", `-release-owner "web-1:7": give`},
		{"-release-owner web-1:7", `-nodes "local:5": nodes that are started here`},
		{"-release-owner web-1:7 -nodes redis://me:secret@h:port", `-nodes "entry 1":`},
		{"-next redis://me:secret@h:1", `-next "***": only -inspect uses it`},
		{"-inspect -json /no/such/place/x.json", `-json "/no/such/place/x.json"`},
		{"-json /no/such/place/x.json", `-json "/no/such/place/x.json"`},
		{"-metrics nowhere:port", `-metrics "nowhere:port"`},
		{"-html /no/such/place/x.html", `-html "/no/such/place/x.html"`},
		{"-html -", `-html "-": the table is on stdout; give a file that can be written`},
		{"-peers main.go", "there is no page to show it"},
		{"-html /dev/null -peers main.go", "it is not JSON"},
	} {
		code, stdout, stderr := loadgen(t.Context(), strings.Fields(tc.args)...)
		require.Equal(t, exitUsage, code, tc.args)
		require.Empty(t, stdout, tc.args)
		require.Contains(t, stderr, tc.want)
		require.NotContains(t, stderr, "secret")
	}
}

// Goal: every field that bench refuses has a flag to name.
func TestFlags_EveryFieldHasOne(t *testing.T) {
	o := options{config: bench.DefaultConfig(bench.Single)}
	set := flags(&o)
	for field, name := range fields {
		require.NotNil(t, set.Lookup(name), field)
	}
	require.Error(t, flagError(&bench.ConfigError{Field: "Nodes"}))
}

// Goal: defaults are those of the scenario, and given values count in any scenario.
func TestFlags_DefaultsFollowTheScenario(t *testing.T) {
	for args, want := range map[string]func(*bench.Config){
		"": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Single)
		},
		"-scenario hold": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Hold)
		},
		"-leases 5 -autoextend 1m": func(c *bench.Config) {
			c.Leases, c.AutoExtend = 5,
				time.Minute
		},
		"-scenario hot": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Hot)
		},
		"-scenario batch": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Batch)
		},
		"-scenario each -keys 30": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Each)
			c.Keys, c.Batch = 30, 30
		},
		"-scenario hot -hot 5": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Hot)
			c.Keys = 5
		},
		"-hot 5 -keys 9 -scenario hot": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Hot)
			c.Keys = 5
		},
		"-scenario cart": func(c *bench.Config) {
			*c = bench.DefaultConfig(bench.Cart)
		},
		"-scenario cart -hot 3 -others 0 -keys 9 -cold 4": func(c *bench.Config) {
			*c = bench.DefaultConfig(bench.Cart)
			c.Hot, c.Others, c.Keys, c.Cold = 3, 0, 9, 4
		},
		"-keys 7 -scenario hot -batch 2 -c 99": func(c *bench.Config) {
			*c = bench.DefaultConfig(
				bench.Hot)
			c.Keys, c.Batch, c.Callers = 7, 2, 99
		},
	} {
		o, err := parse(append(strings.Fields(args), "-seed", "0"))
		require.NoError(t, err)
		expected := bench.DefaultConfig(bench.Single)
		want(&expected)
		require.Equal(t, expected, o.config, args)
	}
	first, err := parse(nil)
	require.NoError(t, err)
	second, err := parse(nil)
	require.NoError(t, err)
	require.NotEqual(t, first.config.Seed, second.config.Seed, "random unless given")
}

// Goal: -h explains every flag on stdout, and is no failure.
func TestFlags_Help(t *testing.T) {
	code, stdout, stderr := loadgen(t.Context(), "-h")
	require.Equal(t, exitSafe, code)
	require.Empty(t, stderr)
	for _, name := range []string{
		"-nodes", "-cluster", "-scenario", "-c ", "-d ", "-rate", "-keys", "-hot", "-others",
		"-cold", "-batch", "-hold", "-ttl", "-clients", "-leases", "-autoextend", "-faults",
		"-fault-seed", "-seed", "-groups", "-inspect", "-json", "-html", "Ctrl-C",
	} {
		require.Contains(t, stdout, name)
	}
}

// Goal: without a terminal there is the table on stdout and nothing else, and the seed is in it.
func TestTable_IsOnStdout(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := loadgen(t.Context(), "-d", "100ms", "-nodes", "local:3", "-c", "4",
		"-seed", "4711")
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "seed 4711")
	require.Contains(t, stdout, "violations: 0   leftover keys: 0\n")
	require.NotContains(t, stdout, "\x1b", "no terminal codes")
}

// Goal: without a redis-server the table and the JSON say what the nodes are, and how a user gets
// servers.
func TestNodesNote_WithoutRedisServer(t *testing.T) {
	t.Setenv("LOCKPIPE_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := loadgen(t.Context(), "-d", "100ms", "-nodes", "local:1", "-c", "2",
		"-json", file)
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	require.Regexp(t, `\n1 node: local:1 \(in-process\)\nThe nodes are in the memory of this process `+
		`.*: no redis-server is on the PATH\.\nFor real servers install one .*\.\n\n`, stdout)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r bench.Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Contains(t, r.NodesNote, "no redis-server is on the PATH. For real servers install one")
	require.NotContains(t, stdout, "client CPU")
	require.NotContains(t, string(text), `"client_cpu`)
}

// Goal: without a redis-server there is no Redis Cluster, and the error says what to install.
func TestCluster_NeedsARedisServer(t *testing.T) {
	t.Setenv("LOCKPIPE_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	code, _, stderr := loadgen(t.Context(), "-cluster", "3", "-d", "100ms", "-c", "2")
	require.Equal(t, exitUnsafe, code)
	require.Contains(t, stderr, "loadgen: start nodes: cluster:3 needs a redis-server on the "+
		"PATH, because nodes in the memory of this process are no Redis Cluster: install one")
}

// Goal: -cluster starts a Redis Cluster, and the table names it.
func TestCluster_IsStarted(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	lockpipetest.RequireRedis(t)
	code, stdout, stderr := loadgen(t.Context(), "-cluster", "3", "-d", "100ms", "-c", "2",
		"-faults", "failover:1@50ms+1ms")
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "\n3 nodes: cluster:3 (redis-server)\n")
	require.Contains(t, stdout, "failover:1@50ms+1ms")
	require.Contains(t, stdout, "violations: 0   leftover keys: 0\n")
}

// Goal: the table and the JSON of real servers have no note on them, and the client's own figures.
func TestNodesNote_NoneOfServers(t *testing.T) {
	t.Parallel()
	lockpipetest.RequireRedis(t)
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := loadgen(t.Context(), "-d", "100ms", "-c", "2", "-nodes", "local:1",
		"-json", file)
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "\n1 node: local:1 (redis-server)\n\n")
	require.Regexp(t, `\n\d+\.\d us of client CPU and \d+\.\d allocations per lock, `+
		`\d+\.\d operations per flush, \d+\.\d\d s\n`, stdout)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `"client_cpu_us_per_lock": `)
	require.Contains(t, string(text), `"allocs_per_lock": `)
	require.NotContains(t, string(text), "with_nodes")
	require.NotContains(t, string(text), "nodes_note")
}

// Goal: -json - prints one JSON object and no table. -json FILE writes the object, with the table.
func TestJSON_IsWritten(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := loadgen(t.Context(), "-d", "100ms", "-nodes", "local:1", "-c", "2",
		"-json", "-")
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	var r bench.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.GreaterOrEqual(t, r.DurationS, 0.1)
	require.Equal(t, "local:1", r.Config.Nodes)

	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr = loadgen(t.Context(), "-d", "100ms", "-nodes", "local:1", "-c", "2",
		"-scenario", "each", "-batch", "3", "-json", file)
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "scenario each")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, bench.Each, r.Scenario)
	require.Equal(t, 3, r.Config.Batch)
}

// Goal: -html FILE writes a page about the run, with the table, and a disk that takes nothing is a
// failure.
func TestHTML_IsWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.html")
	args := []string{"-d", "100ms", "-nodes", "inprocess:3", "-c", "2", "-seed", "4711"}
	code, stdout, stderr := loadgen(t.Context(), append(args, "-html", file)...)
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "violations: 0")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(text, []byte("<!DOCTYPE html>")))
	require.Contains(t, string(text), "<strong>Safe</strong>")
	require.Contains(t, string(text), "4711")
	require.Contains(t, string(text), "</html>")

	peers := filepath.Join("..", "..", "docs", "benchmarks", "results.json")
	code, _, stderr = loadgen(t.Context(), append(args, "-html", file, "-peers", peers)...)
	require.Equal(t, exitSafe, code, stderr)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "Measured apart, 1 caller with 1 key a call on 5 nodes")

	if _, err := os.Stat("/dev/full"); err == nil {
		code, _, stderr = loadgen(t.Context(), append(args, "-html", "/dev/full")...)
		require.Equal(t, exitUnsafe, code)
		require.Contains(t, stderr, `-html "/dev/full": `)
	}
}

// Goal: the JSON of scenario hold has its numbers next to the others, and its table shows them.
func TestHold_JSONAndTable(t *testing.T) {
	t.Parallel()
	args := []string{"-scenario", "hold", "-d", "100ms", "-nodes", "inprocess:3", "-leases", "20"}
	code, stdout, stderr := loadgen(t.Context(), append(args, "-json", "-")...)
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	for _, name := range []string{
		"leases", "lost", "extensions_per_s",
		"rss_bytes_per_lease_with_nodes", "cpu_cores_with_nodes",
	} {
		require.IsType(t, 0.0, r[name], name)
	}
	require.EqualValues(t, 20, r["leases"])
	require.NotContains(t, stdout, `"client_`)

	code, stdout, stderr = loadgen(t.Context(), args...)
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "  bytes/lease with nodes  CPU cores with nodes\n")
	require.Contains(t, stdout, "allocations per lock, nodes included, ")
	require.NotContains(t, stdout, "client CPU")
	require.Contains(t, stdout, "all taken in ")
	require.NotContains(t, stdout, "first dead lease")
}

// Goal: the JSON of scenario hot has its numbers next to the others, and its table shows them.
func TestHot_JSONAndTable(t *testing.T) {
	t.Parallel()
	args := []string{
		"-scenario", "hot", "-hot", "2", "-clients", "2", "-c", "6", "-hold", "1ms",
		"-d", "200ms", "-nodes", "inprocess:3",
	}
	code, stdout, stderr := loadgen(t.Context(), append(args, "-json", "-")...)
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	for _, name := range []string{
		"max_wait_ms", "handovers", "split_votes", "attempts_per_lock", "locks_per_caller_cv",
		"min_share", "max_share", "least_share", "min_client_share", "hot_locks_per_s", "hot_busy",
		"violations", "leftover_keys",
	} {
		require.IsType(t, 0.0, r[name], name)
	}
	wait, ok := r["wait_ms"].(map[string]any)
	require.True(t, ok)
	for _, name := range []string{"p50", "p90", "p99", "p999", "max", "mean"} {
		require.IsType(t, 0.0, wait[name], name)
	}
	config, ok := r["config"].(map[string]any)
	require.True(t, ok)
	require.EqualValues(t, 2, config["keys"])
	require.EqualValues(t, 2, config["clients"])

	code, stdout, stderr = loadgen(t.Context(), args...)
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "attempts/lock")
	require.Contains(t, stdout, "1 of 2 keys a call, held for 1ms")
}

// Goal: the JSON of scenario move has its phases, and its table shows them.
func TestMove_JSONAndTable(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := loadgen(t.Context(), "-scenario", "move", "-d", "3s", "-ttl", "200ms",
		"-nodes", "inprocess:2", "-c", "4", "-clients", "2", "-json", file)
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "rolling to both")
	require.Contains(t, stdout, "4 clients replaced; ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r bench.Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Move.Phases, 5)
}

// Goal: the JSON of scenario cart has the hot keys, the others and the cold callers, and its table
// shows them.
func TestCart_JSONAndTable(t *testing.T) {
	t.Parallel()
	args := []string{
		"-scenario", "cart", "-clients", "2", "-c", "6", "-cold", "3", "-keys", "50", "-hold",
		"1ms", "-d", "200ms", "-nodes", "inprocess:3",
	}
	code, stdout, stderr := loadgen(t.Context(), append(args, "-json", "-")...)
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.IsType(t, 0.0, r["hot_busy"])
	cold, ok := r["cold"].(map[string]any)
	require.True(t, ok)
	for _, name := range []string{"locks_per_s", "max_wait_ms", "min_share", "max_share"} {
		require.IsType(t, 0.0, cold[name], name)
	}
	require.Contains(t, cold["wait_ms"], "p999")
	config, ok := r["config"].(map[string]any)
	require.True(t, ok)
	for name, want := range map[string]int{
		"callers": 6, "cold": 3, "keys": 50, "hot": 1, "others": 2, "batch": 3,
	} {
		require.EqualValues(t, want, config[name], name)
	}

	code, stdout, stderr = loadgen(t.Context(), args...)
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "6 callers and 3 cold callers on 2 clients")
	require.Contains(t, stdout, "1 of 1 hot key and 2 of 50 keys a call, held for 1ms")
	require.Contains(t, stdout, "cold wait")
}

// Goal: the JSON of scenario combine has what batches are about, and its table shows it.
func TestCombine_JSONAndTable(t *testing.T) {
	t.Parallel()
	args := []string{
		"-scenario", "combine", "-clients", "2", "-c", "8", "-hot", "2", "-others", "1", "-hold",
		"1ms", "-work", "100us", "-d", "200ms", "-nodes", "inprocess:3",
	}
	code, stdout, stderr := loadgen(t.Context(), append(args, "-json", "-")...)
	require.Equal(t, exitSafe, code, stderr)
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	for _, name := range []string{"items_per_s", "items_per_batch", "batches", "violations"} {
		require.IsType(t, 0.0, r[name], name)
	}
	require.Contains(t, r["wait_ms"], "p99")
	config, ok := r["config"].(map[string]any)
	require.True(t, ok)
	require.InEpsilon(t, 0.1, config["work_ms"], 1e-9)
	require.EqualValues(t, 2, config["hot"])

	code, stdout, stderr = loadgen(t.Context(), args...)
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "items/batch")
}

// Goal: faults are listed with their times and the seed that repeats the random ones, which is that
// of the run unless given.
func TestFaults_AreListed(t *testing.T) {
	skipIfShort(t)
	lockpipetest.RequireRedis(t)
	t.Parallel()
	args := []string{
		"-d", "500ms", "-c", "4", "-ttl", "2s", "-seed", "4711", "-faults",
		"freeze:1@100ms+200ms,every:200ms",
	}
	code, stdout, stderr := loadgen(t.Context(), args...)
	require.Equal(t, exitSafe, code, stdout+stderr)
	require.Contains(t, stdout, "\nfreeze:1@100ms+200ms  ")
	require.Regexp(t, `fault seed 4711, \d+ keys when the clients were closed\n`, stdout)
	require.Contains(t, stdout, "goroutines: ")
	_, stdout, _ = loadgen(t.Context(), append(args, "-fault-seed", "42")...)
	require.Contains(t, stdout, "fault seed 42,")
}

// Goal: without a redis-server there are no faults, and the error says how to install one.
func TestFaults_NeedARedisServer(t *testing.T) {
	t.Setenv("LOCKPIPE_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	code, stdout, stderr := loadgen(t.Context(), "-faults", "every:1s")
	require.Equal(t, exitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "loadgen: -faults \"every:1s\": faults need a redis-server on the "+
		"PATH; install one (apt-get install redis-server, ")
}

// Goal: an interrupt ends the run, and it still releases everything, prints, and is no failure.
func TestInterrupt_StillPrints(t *testing.T) {
	nodes := servertest.Start(t, 1)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		defer interrupt()
		for ctx.Err() == nil {
			keys, err := nodes.Keys(0, "loadgen:")
			if err != nil || len(keys) == 2 { // both callers hold a lock
				return
			}
		}
	}()
	code, stdout, stderr := loadgen(ctx, "-nodes", nodes.URLs()[0], "-c", "2", "-d", "1h", "-hold",
		"1h")
	require.Equal(t, exitSafe, code, stderr)
	require.Contains(t, stdout, "violations: 0   leftover keys: 0\n")
	require.Contains(t, stdout, "(external)")
	keys, err := nodes.Keys(0, "loadgen:")
	require.NoError(t, err)
	require.Empty(t, keys)
}

// Goal: an interrupt before the first call leaves nothing to print.
func TestInterrupt_BeforeTheStart(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	code, stdout, stderr := loadgen(ctx, "-nodes", "local:1")
	require.Equal(t, exitUnsafe, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "interrupted")
}

// Goal: only a report that is safe, and whole, ends with 0.
func TestExitCode_OnlySafeIsZero(t *testing.T) {
	exit := func(r bench.Report, err error) int {
		return finish(&r, err, "", nil, &bytes.Buffer{}, &bytes.Buffer{})
	}
	require.Equal(t, exitSafe, exit(bench.Report{}, nil))
	require.Equal(t, exitUnsafe, exit(bench.Report{Violations: 1}, nil))
	require.Equal(t, exitUnsafe, exit(bench.Report{LeftoverKeys: 1}, nil))
	require.Equal(t, exitSafe, exit(bench.Report{HoldReport: &bench.HoldReport{}}, nil))
	require.Equal(t, exitUnsafe, exit(bench.Report{HoldReport: &bench.HoldReport{Missing: 1}}, nil))
	require.Equal(t, exitUnsafe, exit(bench.Report{HoldReport: &bench.HoldReport{}, Lost: 1}, nil))
	require.Equal(t, exitUnsafe, exit(bench.Report{}, os.ErrDeadlineExceeded))
}

// Goal: the table shows every number a reader needs, grouped, and the odd ones only when there are
// any.
func TestTable_ShowsEveryNumber(t *testing.T) {
	r := &bench.Report{
		Scenario: bench.Hot, Nodes: 1, Backend: "external", Acquired: 1234567, LocksPerS: 999,
		Violations: 1000, LeftoverKeys: 2,
		AcquireMs: series.Latency{P50: 1.5}, Config: bench.ReportConfig{
			Callers: 1, Clients: 2,
			Keys: 3, Batch: 1, Rate: 50,
		},
	}
	var out bytes.Buffer
	printTable(&out, r)
	for _, want := range []string{
		"1,234,567", " 999 ", "1.500", "violations: 1,000   leftover keys: 2",
		"1 caller on 2 clients", "open loop at 50 calls/s", "1 node: ",
	} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "first error")
	require.NotContains(t, out.String(), "due")

	r.FirstError, r.Unserved = "broken", 3
	out.Reset()
	printTable(&out, r)
	require.Contains(t, out.String(), "first error: broken\n")
	require.Contains(t, out.String(), "3 calls that were due")
}

// Goal: the table says whose the figures are of what this process used: the client's, or with nodes
// in this process also theirs.
func TestTable_SaysWhoseTheCostIs(t *testing.T) {
	r := &bench.Report{
		Backend: "in-process", NodesNote: "In memory. Install one.",
		CPUUsPerLockWithNodes: pointer(142.7), AllocsPerLockWithNodes: pointer(275.9),
		HoldReport: &bench.HoldReport{
			RSSBytesPerLeaseWithNodes: pointer(6543), CPUCoresWithNodes: pointer(1.25),
		},
	}
	var out bytes.Buffer
	printTable(&out, r)
	require.Contains(t, out.String(), "(in-process)\nIn memory.\nInstall one.\n\n")
	require.Contains(t, out.String(), "142.7 us of CPU and 275.9 allocations per lock, nodes included, ")
	require.Regexp(t, ` 6,543 +1\.25\n`, out.String())
	require.NotContains(t, out.String(), "client CPU")
	r = &bench.Report{
		Backend: "redis-server", ClientCPUUsPerLock: pointer(5.4), AllocsPerLock: pointer(3),
		HoldReport: &bench.HoldReport{},
	}
	out.Reset()
	printTable(&out, r)
	require.Contains(t, out.String(), "(redis-server)\n\n")
	require.Contains(t, out.String(), "5.4 us of client CPU and 3.0 allocations per lock, 0.0 oper")
	require.Contains(t, out.String(), "bytes/lease  CPU cores\n")
	require.NotContains(t, out.String(), "with nodes")
}

// Goal: the table of scenario hold shows what it is about.
func TestHold_Table(t *testing.T) {
	r := &bench.Report{Scenario: bench.Hold, Lost: 1001, HoldReport: &bench.HoldReport{
		Leases: 1234567, Samples: 8765, Missing: 2002, FirstMissing: "key 5", ExtensionsPerS: 54321,
		ClientRSSBytesPerLease: pointer(3210),
		ClientCPUCores:         pointer(0.75), Unanswered: 33, TakeS: 1.25, KeepS: 2.5, GiveS: 3.75,
	}}
	var out bytes.Buffer
	printTable(&out, r)
	for _, want := range []string{
		"1,234,567", "1,001", "8,765", "2,002", "54,321", "3,210", " 0.75", " 33 ",
		"first dead lease: key 5\n",
		"taken in 1.25 s, held for 2.50 s, released in 3.75 s",
	} {
		require.Contains(t, out.String(), want)
	}
	out.Reset()
	printTable(&out, &bench.Report{Scenario: bench.Single})
	require.NotContains(t, out.String(), "leases")
}

// Goal: the table of scenario hot shows what it is about.
func TestHot_Table(t *testing.T) {
	r := &bench.Report{Scenario: bench.Hot, HotReport: &bench.HotReport{
		WaitMs: series.Latency{P50: 12.5, Max: 77.25}, MaxWaitMs: 2345.678, Handovers: 1234567,
		SplitVotes: 8901, AttemptsPerLock: 0.123,
		LocksPerCallerCV: 0.456, MinShare: 0.789,
		HotLocksPerS: 171.4, HotBusy: 0.857, MaxShare: 1.234, MinClientShare: 0.345,
		Cold: &bench.ColdReport{
			LocksPerS: 567.8, WaitMs: series.Latency{P50: 6.25}, MaxWaitMs: 98.765,
			MinShare: 0.654, MaxShare: 1.357,
		},
	}}
	var out bytes.Buffer
	printTable(&out, r)
	for _, want := range []string{
		"wait", "12.500", "77.250", "2345.678", "1,234,567", "8,901",
		" 0.12 ", " 0.456 ", " 0.789\n", "171.4 ", " 85.7% ", " 1.234 ", " 0.345\n",
		"567.8 ", " 98.765 ", " 0.654 ", " 1.357\n", "cold wait   6.250",
	} {
		require.Contains(t, out.String(), want)
	}
	out.Reset()
	printTable(&out, &bench.Report{Scenario: bench.Single})
	require.NotContains(t, out.String(), "wait")
	require.NotContains(t, out.String(), "handovers")
}

// Goal: without a terminal there is no bar.
func TestProgress_NoBarWithoutATerminal(t *testing.T) {
	require.Nil(t, newBar(&bytes.Buffer{}, time.Second))
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	b := newBar(file, time.Second)
	require.Nil(t, b)
	b.update(time.Second, 1)
	b.close()
}

package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// check returns the findings.
func check(cfg Config, nodes []Facts) []Finding {
	cfg.Sizes = []int{len(nodes)}
	return Check(&cfg, nodes)
}

// worst returns the highest severity among the findings.
func worst(all []Finding) Severity {
	highest := Info
	for _, f := range all {
		highest = max(highest, f.Severity)
	}
	return highest
}

// healthy is a node as it should be; n tells nodes apart.
func healthy(n int) Facts {
	name := string(rune('a' + n))
	return Facts{
		Status: &Status{State: link.Up}, Node: name + ":6379",
		Info: map[string]string{
			"redis_version": "7.2.5", "run_id": "run " + name, "master_replid": "data " + name,
			"maxmemory_policy": "noeviction", "connected_clients": "3", "maxclients": "10000",
			"aof_enabled": "1",
		},
		Settings: map[string]string{"appendfsync": "always"},
		Samples:  samples(11, 1, time.Millisecond),
	}
}

// samples are n questions within a second, each answered after trip by a clock with this rate.
func samples(n int, rate float64, trip time.Duration) []Sample {
	ours, theirs := time.Now(), time.Unix(1e9, 0) // how far the clocks are apart does not matter
	all := make([]Sample, n)
	for i := range all {
		at := time.Second * time.Duration(i) / time.Duration(max(1, n-1))
		all[i] = Sample{
			Sent: ours.Add(at), Received: ours.Add(at + trip),
			Server: theirs.Add(time.Duration(rate * float64(at+trip/2))),
		}
	}
	return all
}

// info returns a change of fields of INFO: their names, and a value behind each.
func info(pairs ...string) func(*Facts) {
	return func(f *Facts) {
		for i := 0; i < len(pairs); i += 2 {
			f.Info[pairs[i]] = pairs[i+1]
		}
	}
}

// findingsOf returns the findings about three nodes when the last of them is changed.
func findingsOf(change func(*Facts)) []Finding {
	facts := []Facts{healthy(0), healthy(1), healthy(2)}
	change(&facts[2])
	return check(Config{NodeTimeout: 50 * time.Millisecond, MaxTTL: time.Minute}, facts)
}

// The goal: healthy nodes give two lines each, and nothing to do.
func TestCheck_HealthyNodesGiveLittleToRead(t *testing.T) {
	all := findingsOf(func(*Facts) {})
	require.Len(t, all, 6)
	require.Equal(t, Info, worst(all))
	for i, f := range all {
		require.Equal(t, healthy(i/2).Node, f.Node)
		want := "Redis 7.2.5 answers within 1ms (median of 11; the slowest took 1ms)"
		if i%2 == 1 {
			want = "does not vote for MaxTTL (1m0s) after a restart either"
		}
		require.Contains(t, f.Text, want)
	}
}

// The goal: that a restart forgets locks is worth a note with the restart guard, and a warning
// without.
func TestCheck_DataLossIsWorseWithoutTheGuard(t *testing.T) {
	for mode, want := range map[guard.Mode]Severity{
		guard.Auto:   Info,
		guard.Strict: Info, guard.Off: Warning,
	} {
		nodes := []Facts{healthy(0), healthy(1), healthy(2)}
		nodes[2].Info["aof_enabled"] = "0"
		set := Config{NodeTimeout: 50 * time.Millisecond, MaxTTL: time.Minute, Guard: mode}
		all := check(set, nodes)
		require.Equal(t, want, worst(all), "%v: %v", mode, all)
	}
}

// The goal: what a server says of the user and password has a remedy of its own each.
func TestCheck_EachErrorHasARemedy(t *testing.T) {
	for says, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":               "raise its maxmemory",
		"ERR max number of clients reached: EOF":                                "raise its maxclients",
		"dial tcp: lookup nowhere on 127.0.0.53:53: no such host":               "correct the host name in its URL",
		"dial tcp 127.0.0.1:1: connect: connection refused":                     "nothing listens at that address",
		"tls: failed to verify certificate: x509: certificate has expired":      "correct Config.TLS",
		"the server did not answer the TLS handshake; if it does":               "use redis:// in its URL",
		"closed before any answer: is it Redis? Or the client came without TLS": "use rediss:// in its URL",
		"dial tcp 10.0.0.1:6379: i/o timeout":                                   "a firewall drops",
		"no answer within 1.5s":                                                 "whether the server hangs",
		"dial tcp 10.0.0.1:6379: connect: no route to host":                     "the route",
		"WRONGPASS invalid username-password pair or user is disabled.":         "correct the user or password in its URL",
		"NOAUTH Authentication required.":                                       "the server wants a password",
		"no sentinel names the master: sentinel s:1: connection refused":        "do what is said for each sentinel",
		"Config.Credentials has not returned, although its context ended":       "correct Config.Credentials",
		"the key can't be read: NOPERM this user has no permissions to run":     "give its user the permissions",
		"DENIED Redis is running in protected mode":                             "set a password on the server",
		"connection refused": "start it, or correct its URL",
		"the cluster announces a:1 as the owner of slot 1: dial tcp a:1: connection refused": "correct what it announces",
		"1 of the cluster's 6 servers name a:1 as the owner of slot 1, and more than":        "mend the partition",
	} {
		all := findingsOf(func(f *Facts) {
			*f = Facts{Node: f.Node, Err: errors.New(says), Status: &Status{State: link.Down}}
		})
		require.Equal(t, Error, worst(all))
		found := 0
		for _, f := range all {
			if strings.Contains(f.Text, says) {
				require.Contains(t, f.Text, want)
				found++
			}
		}
		require.Equal(t, 1, found, "%v", all)
	}
}

// The goal: each thing that spoils locks gives one finding more than healthy nodes do, of the right
// severity, that names it.
func TestCheck_FindsEachFault(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*Facts)
		Severity Severity
		says     string
	}{
		"too old": {
			info("redis_version", "6.0.16"),
			Error, "runs Redis 6.0.16",
		},
		"replica": {
			info("role", "slave", "master_host", "x", "master_port", "1"), Error,
			"is a replica of x:1",
		},
		"cluster": {info("redis_mode", "cluster"), Error, "is a node of a Redis Cluster; give"},
		"evicts all": {
			info("maxmemory_policy", "allkeys-lru", "maxmemory", "1"), Error, "evicts keys when its memory is full (maxmemory-policy " +
				"allkeys-lru)",
		},
		"evicts with TTL": {
			info("maxmemory_policy", "volatile-ttl", "maxmemory", "1"),
			Error, "volatile-ttl",
		},
		"would evict": {
			info("maxmemory_policy", "allkeys-random"),
			Warning, "would evict locks",
		},
		"limited": {
			info("used_memory", "3145728", "maxmemory", "12582912"), Warning, "the 12 MiB of its maxmemory (now 3 MiB, 25 %)",
		},
		"loading":       {info("loading", "1"), Warning, "loading"},
		"loading still": {info("async_loading", "1"), Warning, "loading"},
		"snapshot":      {info("rdb_last_bgsave_status", "err"), Warning, "MISCONF"},
		"disk":          {info("aof_last_write_status", "err"), Warning, "MISCONF"},
		"full": {
			info("connected_clients", "90", "maxclients", "100"),
			Warning, "90 of at most 100 clients",
		},
		"slow": {func(f *Facts) {
			f.Samples[3].Received = f.Samples[3].Sent.Add(
				26 * time.Millisecond)
		}, Warning, "took 26ms for one of 11"},
		"fast clock": {
			func(f *Facts) { f.Samples = samples(11, 1.03, time.Millisecond) },
			Error, "3.0 % too fast",
		},
		"slow clock": {
			func(f *Facts) { f.Samples = samples(11, 0.97, time.Millisecond) },
			Error, "3.0 % too slow",
		},
		"far away": {
			func(f *Facts) { f.Samples = samples(11, 1, 20*time.Millisecond) },
			Info, "could not be checked",
		},
		"stopped": {
			func(f *Facts) {
				f.State, f.Err = link.Connecting, errors.New("it broke")
			},
			Error, "can't be used and has no vote (it broke)",
		},
		"hangs": {
			func(f *Facts) { f.Err = errors.New("no answer within 1.5s") },
			Error, "can't be used and has no vote (no answer within 1.5s)",
		},
		"up, and refuses others": {
			func(f *Facts) { f.Err = errors.New("WRONGPASS") },
			Error, "takes no new connection (WRONGPASS), so it has no vote when it loses",
		},
		"quarantined": {
			func(f *Facts) {
				f.State, f.StateErr = link.Quarantined,
					errors.New("until then")
			},
			Error, "has no vote: until then",
		},
		"failing": {
			func(f *Facts) {
				f.State, f.StateErr = link.Failing,
					errors.New("OOM too much")
			},
			Error, "is failing, and grants no locks (OOM too much): raise its maxmemory",
		},
		"not connected": {
			func(f *Facts) { f.State = link.Connecting },
			Warning, "before the client is connected",
		},
		"down": {
			func(f *Facts) {
				f.State, f.StateErr = link.Down,
					errors.New("NOPERM to delete")
			},
			Error, "answers, but can't be used and has no vote (NOPERM to delete): give " +
				"its user",
		},
		"down, as it is of a cluster": {
			func(f *Facts) {
				f.State, f.Info["redis_mode"] = link.Down, "cluster"
				f.StateErr = errors.New("it is of a cluster")
			},
			Error, "is a node of a Redis Cluster; give",
		},
		"down, as it is the same server": {
			func(f *Facts) {
				f.State, f.StateErr = link.Down, errors.New("is the same server as b")
				f.Info["run_id"] = "run b"
			},
			Error, "is the same server as b",
		},
		"full memory": {
			info("used_memory", "13631488", "maxmemory", "12582912"),
			Error,
			"refuses locks, because it uses 13 MiB, more than its maxmemory (12 MiB)",
		},
		"nearly full memory": {
			info("used_memory", "11534336", "maxmemory", "12582912"),
			Warning, "soon refuses locks, because it uses 11 MiB, 91 % of its maxmemory " +
				"(12 MiB)",
		},
		"another policy": {
			info("maxmemory_policy", "newest-first", "maxmemory", "1"),
			Error, "maxmemory-policy newest-first",
		},
		"polls": {
			func(f *Facts) {
				f.CommandErrors = refusals("CLIENT CACHING", "NOPERM somebody")
			},
			Warning, "ask again and again: give the user +client|caching",
		},
		"polls, unguarded": {
			func(f *Facts) {
				f.CommandErrors = append(refusals("CLIENT TRACKING", "NOPERM somebody"),
					refusals("CLIENT CACHING", "NOPERM somebody")...)
			},
			Warning, "reads its key behind each trip: give the user +client|tracking",
		},
		"same server": {
			info("run_id", "run b"), Error,
			"is the same server as b:6379 (run_id run b)",
		},
		"same data": {
			info("master_replid", "data a"), Error,
			"has the same data as a:6379",
		},
		"another server votes": {
			func(f *Facts) { f.Other.RunID, f.Other.Votes = "run x", true }, Error,
			"leads to more than one server (run_id run x votes, run_id run c answered)",
		},
		"another server answers": {
			func(f *Facts) { f.Other.RunID = "run x" }, Error,
			"leads to more than one server (run_id run x answered, run_id run c answered)",
		},
		"silent policy": {func(f *Facts) {
			f.CommandErrors = refusals("CONFIG GET", "NOPERM User somebody has no permissions")
		}, Info, "give the user +config|get"},
		"forgets that it was a replica": {
			func(f *Facts) { f.Settings["repl-backlog-ttl"] = "59" }, Error,
			"forgets after 59s that it was a replica (repl-backlog-ttl), and then it may vote " +
				"although it has missed locks: set repl-backlog-ttl to MaxTTL (1m0s) or more",
		},
		"renamed": {func(f *Facts) {
			f.CommandErrors = refusals("TIME",
				"unknown command 'TIME'")
		}, Info, "does not know TIME"},
		"busy": {
			func(f *Facts) { f.CommandErrors = refusals("INFO", "BUSY with a script") },
			Info, `"BUSY with a script"`,
		},
	} {
		all := findingsOf(tc.change)
		var matching []Finding
		for _, f := range all {
			if strings.Contains(f.Text, tc.says) {
				matching = append(matching, f)
			}
		}
		require.Len(t, matching, 1, name)
		require.Equal(t, tc.Severity, matching[0].Severity, name)
		require.NotContains(t, matching[0].Text, "somebody", "the name of a user")
		require.Equal(t, healthy(2).Node, matching[0].Node, name)
		require.Equal(t, tc.Severity, worst(all), name)
		lines := 7
		if name == "silent policy" { // in place of what it would have told
			lines = 6
		}
		require.Len(t, all, lines, name)
	}
}

func refusals(command, text string) []CommandError {
	return []CommandError{{Command: command, Text: text}}
}

// The goal: what is just good enough is not found wanting.
func TestCheck_FindsNothingInWhatIsGoodEnough(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"6.2":         info("redis_version", "6.2.0"),
		"10.0":        info("redis_version", "10.0"),
		"odd version": info("redis_version", "next"),
		"Dragonfly":   info("dragonfly_version", "df-v1.20", "redis_mode", "cluster"),
		"drift": func(f *Facts) {
			f.Samples = samples(11, 1.0095,
				time.Millisecond)
		},
		"half": func(f *Facts) {
			f.Samples[0].Received = f.Samples[0].Sent.Add(
				25 * time.Millisecond)
		},
		"clients":  info("connected_clients", "89", "maxclients", "100"),
		"not told": info("run_id", "", "master_replid", "", "maxclients", ""),
		"no clock": func(f *Facts) {
			f.Samples[9].Server,
				f.Samples[10].Server = time.Time{}, time.Time{}
		},
		"a single trip":  func(f *Facts) { f.Samples = f.Samples[:1] },
		"other policies": info("maxmemory_policy", ""),
	} {
		all := findingsOf(change)
		require.Len(t, all, 6, name)
		require.Equal(t, Info, worst(all), name)
	}
}

// The goal: a restart costs the vote of a guarded node, whatever it writes to its disk. Of a node
// without the guard it means for locks what the server's persistence lets it mean.
func TestCheck_PersistenceSaysWhatARestartMeans(t *testing.T) {
	for _, tc := range []struct {
		change      func(*Facts)
		says, unset string // with the guard, and without
	}{
		{func(*Facts) {}, "appendonly no is faster", "a restart keeps them"},
		{func(f *Facts) { f.Settings["no-appendfsync-on-rewrite"] = "yes" }, "which may forget locks", "may forget locks"},
		{func(f *Facts) { f.Settings["appendfsync"] = "everysec" }, "which may forget locks", "may forget locks"},
		{info("aof_enabled", "0"), "which may forget locks", "may forget locks"},
	} {
		all := findingsOf(tc.change)
		require.Len(t, all, 6)
		require.Equal(t, Info, worst(all))
		require.Contains(t, all[5].Text, tc.says)
		require.Contains(t, all[5].Text, "not vote for MaxTTL (1m0s) after a restart")
		node := healthy(0)
		tc.change(&node)
		set := Config{NodeTimeout: 50 * time.Millisecond, Guard: guard.Off}
		all = check(set, []Facts{node})
		require.Contains(t, all[1].Text, tc.unset)
	}
}

// The goal: repl-backlog-ttl is as long as MaxTTL, or has no end. Without the guard it does not
// matter.
func TestCheck_BacklogOfAsLongAsMaxTTLIsFine(t *testing.T) {
	for _, backlog := range []string{"", "0", "60", "3600"} {
		require.Len(t, findingsOf(func(f *Facts) { f.Settings["repl-backlog-ttl"] = backlog }), 6)
	}
	node := healthy(0)
	node.Settings["repl-backlog-ttl"] = "1"
	for _, f := range check(Config{MaxTTL: time.Minute, Guard: guard.Off}, []Facts{node}) {
		require.NotContains(t, f.Text, "repl-backlog-ttl")
	}
}

// The goal: a node that tells nothing gives one line about it, and none that only a told fact
// allows.
func TestCheck_OneFindingForANodeThatTellsNothing(t *testing.T) {
	all := findingsOf(func(f *Facts) {
		*f = Facts{Status: f.Status, Node: f.Node, Samples: f.Samples}
	})
	require.Len(t, all, 6)
	require.Contains(t, all[4].Text, "no Redis or Valkey that tells its version")
	require.Contains(t, all[5].Text, "the server answers within")
	all = findingsOf(func(f *Facts) {
		*f = Facts{
			Status: &Status{State: link.Down}, Node: f.Node, Err: errors.New("refused"),
		}
	})
	require.Len(t, all, 5)
	require.Contains(t, all[4].Text, "can't be used")
}

// The goal: two nodes that are not independent are found in either order, each one once, behind all
// that is about single nodes.
func TestCheck_FindsNodesThatAreNotIndependent(t *testing.T) {
	replica := func(of Facts) func(*Facts) {
		host, port, _ := strings.Cut(of.Node, ":")
		return info("role", "slave", "master_host", host, "master_port", port,
			"master_replid", of.Info["master_replid"])
	}
	same := func(of Facts) func(*Facts) {
		return info("run_id", of.RunID(), "master_replid", of.Info["master_replid"])
	}
	change := func(facts []Facts, i int, how func(*Facts)) { how(&facts[i]) }
	for name, tc := range map[string]struct {
		change func(facts []Facts)
		want   []string
	}{
		"replica behind its master": {
			func(f []Facts) {
				change(f, 2,
					replica(
						f[0]))
			}, []string{"c:6379 is a replica of a:6379, which is listed as well"},
		},
		"replica before its master": {
			func(f []Facts) {
				change(f, 0,
					replica(
						f[2]))
			}, []string{"a:6379 is a replica of c:6379, which is listed as well"},
		},
		"two replicas": {
			func(f []Facts) { change(f, 1, replica(f[0])); change(f, 2, replica(f[0])) },
			[]string{
				"b:6379 is a replica of a:6379, which is",
				"c:6379 is a replica of a:6379, which is",
			},
		},
		"replica under another name": {
			func(f []Facts) {
				change(f, 2,
					replica(
						f[0]))
				f[2].Info["master_host"] = "inside"
			},
			[]string{"c:6379 has the same data as a:6379"},
		},
		"three times the same": {
			func(f []Facts) { change(f, 1, same(f[0])); change(f, 2, same(f[0])) },
			[]string{"b:6379 is the same server as a:6379", "c:6379 is the same server as a:6379"},
		},
	} {
		facts := []Facts{healthy(0), healthy(1), healthy(2)}
		tc.change(facts)
		all := check(Config{NodeTimeout: time.Second}, facts)
		last := all[len(all)-len(tc.want):]
		for i, want := range tc.want {
			require.Contains(t, last[i].Node+" "+last[i].Text, want, name)
			require.Equal(t, Error, last[i].Severity, name)
		}
		for _, f := range all[:len(all)-len(tc.want)] {
			require.NotContains(t, f.Text, "listed as well", name)
			require.NotContains(t, f.Text, "same", name)
		}
	}
}

// The goal: a Sentinel is named, and gives no advice about data that it does not have.
func TestCheck_NamesASentinel(t *testing.T) {
	all := findingsOf(func(f *Facts) {
		*f.Status = Status{link.Down, errors.New("it is a Redis Sentinel")}
		f.Info = map[string]string{"redis_version": "7.2.5", "redis_mode": "sentinel"}
		f.CommandErrors = refusals("CONFIG GET", "unknown command")
	})
	require.Len(t, all, 6)
	require.Equal(t, Error, all[5].Severity)
	require.Contains(t, all[5].Text, "is a Redis Sentinel; give the masters themselves")
}

// The goal: of two nodes that are one server, the finding is about the one that is down for it.
func TestCheck_TheSameServerIsAboutTheNodeThatIsDown(t *testing.T) {
	nodes := []Facts{healthy(0), healthy(1), healthy(2)}
	nodes[0].State, nodes[0].Info["run_id"] = link.Down, nodes[2].RunID()
	all := check(Config{NodeTimeout: time.Second}, nodes)
	require.Len(t, all, 7)
	require.Equal(t, "a:6379", all[6].Node)
	require.Contains(t, all[6].Text, "is the same server as c:6379")
}

// The goal: one node is better off with GuardStrict, and the finding says why.
func TestCheck_OneNodeIsAdvisedToUseGuardStrict(t *testing.T) {
	for mode, want := range map[guard.Mode]int{
		guard.Auto: 1, guard.Strict: 0, guard.Off: 0,
	} {
		for n := 1; n <= 2; n++ {
			set := Config{NodeTimeout: time.Second, MaxTTL: time.Minute, Guard: mode}
			found := 0
			for _, f := range check(set, []Facts{healthy(0), healthy(1)}[:n]) {
				if strings.Contains(f.Text, "use GuardStrict, which waits for MaxTTL (1m0s)") {
					require.Equal(t, Warning, f.Severity)
					require.Empty(t, f.Node)
					found++
				}
			}
			require.Equal(t, want*(2-n), found, "%v with %d", mode, n)
		}
	}
}

// The goal: the number of nodes is told where another one would be better, as a finding about all
// of them.
func TestCheck_TheNumberOfNodes(t *testing.T) {
	for n, want := range map[int]*Finding{
		1: {"", Warning, "one node is all there is"}, 2: {
			"", Warning,
			"only together",
		}, 3: nil,
		4: {"", Info, "4 nodes tolerate as many failures as 3 would (1)"}, 5: nil,
		6: {"", Info, "as 5 would (2)"},
	} {
		var facts []Facts
		for i := range n {
			facts = append(facts, healthy(i))
		}
		all := check(Config{NodeTimeout: time.Second, Guard: guard.Strict}, facts)
		if want == nil {
			require.Len(t, all, 2*n)
			continue
		}
		require.Len(t, all, 2*n+1)
		last := all[2*n]
		require.Equal(t, want.Node, last.Node)
		require.Equal(t, want.Severity, last.Severity)
		require.Contains(t, last.Text, want.Text)
	}
}

// The goal: whatever the answers' ways take there and back, the true drift is no further from the
// measured one than it says.
func TestClockDrift_IsWithinItsBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		rate := 0.9 + 0.2*random.Float64()
		began, clock := time.Now(), time.Unix(random.Int64N(2e9), 0)
		var all []Sample
		at := time.Duration(0)
		for range 2 + random.IntN(20) {
			there, back := time.Duration(random.Int64N(5e7)), time.Duration(random.Int64N(5e7))
			all = append(all, Sample{
				Sent: began.Add(at), Received: began.Add(at + there + back),
				Server: clock.Add(time.Duration(rate * float64(at+there))).Truncate(
					time.Microsecond),
			})
			at += there + back + time.Duration(random.Int64N(1e8))
		}
		drift, uncertain, ok := clockDrift(all)
		require.True(t, ok)
		// The bound is for trips on our clock, and theirs is up to a tenth off.
		require.InDelta(t, rate-1, drift, uncertain*1.1+1e-6)
	}
}

// The goal: sizes are for people.
func TestSize_IsForPeople(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB",
		5 << 30: "5 GiB", 2000 << 40: "2000 TiB",
	} {
		require.Equal(t, want, size(bytes))
	}
}

// leave has a node show an entry that was renewed that long ago.
func leave(node *Facts, owner string, maxTTL, age time.Duration, runIDs string,
	nodes ...string,
) {
	field, err := json.Marshal(fleet.Entry{
		WaitMillis: maxTTL.Milliseconds(), MaxTTLMillis: maxTTL.Milliseconds(),
		Layouts: [][]fleet.Group{{{Nodes: nodes}}},
	})
	if err != nil {
		panic(err)
	}
	last := node.Samples[len(node.Samples)-1]
	lasts := maxTTL + 10*time.Minute - age - time.Until(last.Received)
	end := last.Server.UnixMilli() + lasts.Milliseconds()
	node.Layouts = append(node.Layouts, string(field), fmt.Sprintf("%d %s %s", end, owner, runIDs))
}

// The goal: an operator sees which layouts are in use, by whom and for how long at most, and which
// one is not excluded. What has ended by the server's clock is not listed.
func TestCheck_LayoutsInUse(t *testing.T) {
	synctest.Test(t, checkLayoutsInUse)
}

func checkLayoutsInUse(t *testing.T) {
	const ids = `{"a":"run a","b":"run b","c":"run c"}`
	facts := []Facts{healthy(0), healthy(1), healthy(2)}
	for i := range facts {
		facts[i].LayoutName, facts[i].Info["uptime_in_seconds"] = string(rune('a'+i)), "86400"
	}
	set := Config{
		NodeTimeout: 50 * time.Millisecond, MaxTTL: time.Minute, Owner: "me",
		Layouts: [][]fleet.Group{{{Nodes: []string{"a", "b", "c"}}}},
	}
	require.Equal(t, Info, worst(check(set, facts)))
	leave(&facts[0], "me", time.Minute, 10*time.Second, ids, "a", "b", "c")
	leave(&facts[1], "you", time.Minute, time.Second, ids, "a", "b", "c")
	leave(&facts[1], "other", time.Minute, 2*time.Second, `{"x":"run a","y":"run b"}`, "x", "y", "z")
	leave(&facts[1], "gone", time.Minute, 12*time.Minute, ids, "old")
	leave(&facts[1], "ended", time.Minute, 5*time.Minute, `{"a":"run b"}`, "a")
	facts[1].Layouts = append(facts[1].Layouts, "odd", "1")
	all := check(set, facts)
	require.Equal(t, Info, worst(all), "%v", all)
	require.Equal(t, Finding{"", Info, "layouts in use: " +
		"a (owner ended, MaxTTL 1m0s, renewed 5m0s ago) until at most 6m1s from now; " +
		"a,b,c (this client's; owner you, MaxTTL 1m0s, renewed 1s ago) until at most 11m0s from now; " +
		"x,y,z (owner other, MaxTTL 1m0s, renewed 2s ago) until at most 10m59s from now"},
		all[len(all)-1])

	leave(&facts[2], "other", time.Minute, time.Second, `{"x":"run a","y":"run b","z":"run z"}`, "x",
		"y", "z")
	require.Equal(t, Info, worst(check(set, facts)), "it was written before the restart of c")
	leave(&facts[0], "other", time.Minute, time.Second, `{"x":"run a","y":"run b","z":"run z"}`, "x",
		"y", "z")
	all = check(set, facts)
	last := all[len(all)-1]
	require.Equal(t, Error, last.Severity)
	require.Contains(t, last.Text, "another client (owner other) uses the layout x,y,z (seen on "+
		"a, b, c), which shares no quorum with this client's (owner me, layout a,b,c)")
	facts[2].Info["uptime_in_seconds"] = "1"
	require.Equal(t, Info, worst(check(set, facts)), "c may have been run z when that was written")
}

// The goal: an operator hears that clients have different MaxTTLs, and which.
func TestCheck_DifferentMaxTTLs(t *testing.T) {
	facts := []Facts{healthy(0), healthy(1), healthy(2)}
	set := Config{NodeTimeout: 50 * time.Millisecond, MaxTTL: time.Minute}
	leave(&facts[0], "b", time.Second, time.Second, "{}", "a")
	require.Equal(t, Info, worst(check(set, facts)))
	leave(&facts[1], "a", 20*time.Second, time.Second, "{}", "a")
	leave(&facts[2], "a", 20*time.Second, time.Second, "{}", "b")
	all := check(set, facts)
	require.Equal(t, Warning, worst(all))
	require.Contains(t, all[len(all)-1].Text, "nodes have MaxTTL 20s (owner a) and 1s (owner b) on record")
}

// The goal: who inspects with a shorter MaxTTL than a client has hears that nodes wait for longer.
func TestCheck_AShorterMaxTTLThanThatOfClients(t *testing.T) {
	facts := []Facts{healthy(0), healthy(1), healthy(2)}
	set := Config{NodeTimeout: 50 * time.Millisecond, MaxTTL: 10 * time.Second}
	leave(&facts[0], "web-3", 5*time.Minute, time.Second, "{}", "a")
	all := check(set, facts)
	require.Equal(t, Warning, worst(all))
	require.Equal(t, "nodes have MaxTTL 5m0s (owner web-3) on record, and wait for the longest "+
		"after a loss: give all clients the same MaxTTL (here it is 10s)",
		all[len(all)-1].Text)
}

// The goal: what the restart guard's key says is told of each node, and that it keeps a node from
// voting is a warning. Of a server without a run_id it means nothing.
func TestCheck_WhatTheRestartGuardsKeySays(t *testing.T) {
	for text, want := range map[string]Finding{
		"":                 {"c:6379", Info, "has no key of the restart guard"},
		"runc":             {"c:6379", Info, "was admitted by the restart guard"},
		"runc.more":        {"c:6379", Info, "was admitted by the restart guard"},
		"new:10000:runc:x": {"c:6379", Warning, "the restart guard lets it wait for 6s more"},
		"lost:9000:runc:x": {"c:6379", Warning, "the restart guard lets it wait for 5s more"},
		"lost:9000:runb:x": {"c:6379", Warning, "the restart guard's key of another memory"},
		"runb":             {"c:6379", Warning, "the restart guard's key of another memory"},
	} {
		admission := &Admission{Text: text, PTTL: 180*24*time.Hour - 5*time.Second}
		all := findingsOf(func(f *Facts) {
			f.Admission = admission
			f.Info = map[string]string{
				"redis_version": "7.2.5", "run_id": "runc", "master_replid2": "0",
			}
		})
		require.Len(t, all, 7)
		require.Equal(t, want.Severity, all[6].Severity, text)
		require.Equal(t, want.Node, all[6].Node)
		require.Contains(t, all[6].Text, want.Text)
		all = findingsOf(func(f *Facts) { f.Admission, f.Info["run_id"] = admission, "" })
		require.Len(t, all, 6)
	}
}

// The goal: without a client nothing is said about a vote of a node that answers, and one that does
// not is an error. The same server twice is found.
func TestCheck_WithoutAClient(t *testing.T) {
	facts := []Facts{healthy(0), healthy(0), {Node: "c:6379", Err: errors.New("refused")}}
	facts[0].Status, facts[1].Status = nil, nil
	all := Check(&Config{NodeTimeout: time.Second}, facts)
	require.Len(t, all, 6)
	require.Equal(t, Info, worst(all[:4]))
	require.Equal(t, Error, all[4].Severity)
	require.Contains(t, all[4].Text, "can't be used and has no vote (refused)")
	require.Contains(t, all[5].Text, "is the same server as a:6379")
}

// The goal: of a node that hangs up at once the client's reason is shown, which knows more.
func TestCheck_WhyANodeHangsUp(t *testing.T) {
	all := findingsOf(func(f *Facts) {
		f.Err = resp.ErrUnanswered
		*f.Status = Status{link.Down, fmt.Errorf("%w; it came without TLS", resp.ErrUnanswered)}
	})
	require.Contains(t, all[4].Text, "it came without TLS")
	require.Contains(t, all[4].Text, "use rediss:// in its URL")
}

// The goal: a certificate that ends within two weeks, or has ended, is a warning that says whose it
// is and when it ends.
func TestCheck_CertificatesThatEndSoonAreAWarning(t *testing.T) {
	const day = 24 * time.Hour
	for left, says := range map[time.Duration]string{
		-day: "less than 1 day", time.Hour: "less than 1 day", 13*day + 1: "less than 14 days",
		14 * day: "", 365 * day: "",
	} {
		for whose, set := range map[string]func(n *Facts){
			"its":          func(n *Facts) { n.ServerCertificate = left },
			"the client's": func(n *Facts) { n.ClientCertificate = left },
		} {
			all := findingsOf(set)
			if says == "" {
				require.Equal(t, Info, worst(all))
				continue
			}
			require.Equal(t, Warning, worst(all))
			i := slices.IndexFunc(all, func(f Finding) bool { return f.Severity == Warning })
			require.Contains(t, all[i].Text, whose+" TLS certificate ends in "+says)
		}
	}
}

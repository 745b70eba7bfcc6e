package preflight

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/inspection"
	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/restartguard"
)

// check returns the findings.
func check(set Settings, facts []inspection.Facts) []Finding {
	return Check(set, facts, []int{len(facts)})
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
func healthy(n int) inspection.Facts {
	name := string(rune('a' + n))
	return inspection.Facts{
		Node: name + ":6379", Server: "Redis", Version: "7.2.5", RedisVersion: "7.2.5",
		RunID: "run " + name, ReplicationID: "data " + name,
		State: link.Up, Policy: "noeviction", Clients: 3, MaxClients: 10000, AOF: true,
		Fsync: "always", Samples: samples(11, 1, time.Millisecond),
	}
}

// samples are n questions within a second, each answered after trip by a clock with this rate.
func samples(n int, rate float64, trip time.Duration) []inspection.Sample {
	ours, theirs := time.Now(), time.Unix(1e9, 0) // how far the clocks are apart does not matter
	all := make([]inspection.Sample, n)
	for i := range all {
		at := time.Second * time.Duration(i) / time.Duration(max(1, n-1))
		all[i] = inspection.Sample{
			Sent: ours.Add(at), Received: ours.Add(at + trip),
			Server: theirs.Add(time.Duration(rate * float64(at+trip/2))),
		}
	}
	return all
}

// findingsOf returns the findings about three nodes when the last of them is changed.
func findingsOf(change func(*inspection.Facts)) []Finding {
	facts := []inspection.Facts{healthy(0), healthy(1), healthy(2)}
	change(&facts[2])
	return check(Settings{NodeTimeout: 50 * time.Millisecond, MaxTTL: time.Minute}, facts)
}

// The goal: healthy nodes give two lines each, and nothing to do.
func TestCheck_HealthyNodesGiveLittleToRead(t *testing.T) {
	all := findingsOf(func(*inspection.Facts) {})
	require.Len(t, all, 6)
	require.Equal(t, Info, worst(all))
	for i, f := range all {
		require.Equal(t, healthy(i/2).Node, f.Node)
		want := "Redis 7.2.5 answers within 1ms (median of 11; the slowest took 1ms)"
		if i%2 == 1 {
			want = "a restart keeps them, and it may vote at once"
		}
		require.Contains(t, f.Text, want)
	}
}

// The goal: that a restart forgets locks is worth a note with the restart guard, and a warning
// without.
func TestCheck_DataLossIsWorseWithoutTheGuard(t *testing.T) {
	for mode, want := range map[restartguard.Mode]Severity{
		restartguard.Auto:   Info,
		restartguard.Strict: Info, restartguard.Off: Warning,
	} {
		nodes := []inspection.Facts{healthy(0), healthy(1), healthy(2)}
		nodes[2].AOF = false
		set := Settings{NodeTimeout: 50 * time.Millisecond, MaxTTL: time.Minute, Guard: mode}
		all := check(set, nodes)
		require.Equal(t, want, worst(all), "%v: %v", mode, all)
	}
}

// The goal: what a server says of the user and password has a remedy of its own each.
func TestCheck_EachErrorHasARemedy(t *testing.T) {
	for says, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":              "raise its maxmemory",
		"ERR max number of clients reached: EOF":                               "raise its maxclients",
		"dial tcp: lookup nowhere on 127.0.0.53:53: no such host":              "correct the host name in its URL",
		"dial tcp 127.0.0.1:1: connect: connection refused":                    "nothing listens at that address",
		"tls: failed to verify certificate: x509: certificate has expired":     "correct Config.TLS",
		"connected, but no answer to TLS: the server may speak none":           "use redis:// in its URL",
		"closed before any answer; the client came without TLS":                "use rediss:// in its URL",
		"dial tcp 10.0.0.1:6379: i/o timeout":                                  "a firewall drops",
		"no answer within 1.5s":                                                "whether the server hangs",
		"dial tcp 10.0.0.1:6379: connect: no route to host":                    "the route",
		"WRONGPASS invalid username-password pair or user is disabled.":        "correct the user or password in its URL",
		"NOAUTH Authentication required.":                                      "the server wants a password",
		"no sentinel names the master: sentinel s:1: connection refused":       "do what is said for each sentinel",
		"Config.Credentials has not returned, although its context ended":      "correct Config.Credentials",
		"the marker can't be read: NOPERM this user has no permissions to run": "give its user the permissions",
		"DENIED Redis is running in protected mode":                            "set a password on the server",
		"connection refused": "start it, or correct its URL",
	} {
		all := findingsOf(func(f *inspection.Facts) {
			*f = inspection.Facts{Node: f.Node, State: link.Down, Err: errors.New(says)}
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
		change   func(*inspection.Facts)
		Severity Severity
		says     string
	}{
		"too old": {
			func(f *inspection.Facts) { f.Version, f.RedisVersion = "6.0.16", "6.0.16" },
			Error, "runs Redis 6.0.16",
		},
		"replica": {
			func(f *inspection.Facts) { f.Replica, f.Master = true, "x:1" }, Error,
			"is a replica of x:1",
		},
		"cluster": {func(f *inspection.Facts) { f.Cluster = true }, Error, "cluster mode"},
		"evicts all": {
			func(f *inspection.Facts) {
				f.Policy, f.MaxMemory = "allkeys-lru",
					1
			}, Error, "evicts keys when its memory is full (maxmemory-policy " +
				"allkeys-lru)",
		},
		"evicts with TTL": {
			func(f *inspection.Facts) { f.Policy, f.MaxMemory = "volatile-ttl", 1 },
			Error, "volatile-ttl",
		},
		"would evict": {
			func(f *inspection.Facts) { f.Policy = "allkeys-random" },
			Warning, "would evict locks",
		},
		"limited": {
			func(f *inspection.Facts) {
				f.Memory, f.MaxMemory = 3<<20,
					12<<20
			}, Warning, "the 12 MiB of its maxmemory (now 3 MiB, 25 %)",
		},
		"loading": {func(f *inspection.Facts) { f.Loading = true }, Warning, "loading"},
		"disk":    {func(f *inspection.Facts) { f.LastSaveFailed = true }, Warning, "MISCONF"},
		"full": {
			func(f *inspection.Facts) { f.Clients, f.MaxClients = 90, 100 },
			Warning, "90 of at most 100 clients",
		},
		"slow": {func(f *inspection.Facts) {
			f.Samples[3].Received = f.Samples[3].Sent.Add(
				26 * time.Millisecond)
		}, Warning, "took 26ms for one of 11"},
		"fast clock": {
			func(f *inspection.Facts) { f.Samples = samples(11, 1.03, time.Millisecond) },
			Error, "3.0 % too fast",
		},
		"slow clock": {
			func(f *inspection.Facts) { f.Samples = samples(11, 0.97, time.Millisecond) },
			Error, "3.0 % too slow",
		},
		"far away": {
			func(f *inspection.Facts) { f.Samples = samples(11, 1, 20*time.Millisecond) },
			Info, "could not be checked",
		},
		"stopped": {
			func(f *inspection.Facts) {
				f.State, f.Err = link.Connecting, errors.New("it broke")
			},
			Error, "can't be used and has no vote (it broke)",
		},
		"hangs": {
			func(f *inspection.Facts) { f.Err = errors.New("no answer within 1.5s") },
			Error, "can't be used and has no vote (no answer within 1.5s)",
		},
		"up, and refuses others": {
			func(f *inspection.Facts) { f.Err = errors.New("WRONGPASS") },
			Error, "takes no new connection (WRONGPASS), so it has no vote when it loses",
		},
		"quarantined": {
			func(f *inspection.Facts) {
				f.State, f.StateErr = link.Quarantined,
					errors.New("until then")
			},
			Error, "has no vote: until then",
		},
		"failing": {
			func(f *inspection.Facts) {
				f.State, f.StateErr = link.Failing,
					errors.New("OOM too much")
			},
			Error, "is failing, and grants no locks (OOM too much): raise its maxmemory",
		},
		"not connected": {
			func(f *inspection.Facts) { f.State = link.Connecting },
			Warning, "before the client is connected",
		},
		"down": {
			func(f *inspection.Facts) {
				f.State, f.StateErr = link.Down,
					errors.New("NOPERM to delete")
			},
			Error, "answers, but can't be used and has no vote (NOPERM to delete): give " +
				"its user",
		},
		"down, as it is of a cluster": {
			func(f *inspection.Facts) {
				f.State, f.Cluster = link.Down, true
				f.StateErr = errors.New("it is of a cluster")
			},
			Error, "runs in cluster mode",
		},
		"down, as it is the same server": {
			func(f *inspection.Facts) {
				f.State, f.StateErr, f.RunID = link.Down, errors.New("is the same server as b"),
					"run b"
			},
			Error, "is the same server as b",
		},
		"full memory": {
			func(f *inspection.Facts) { f.Memory, f.MaxMemory = 13<<20, 12<<20 },
			Error,
			"refuses locks, because it uses 13 MiB, more than its maxmemory (12 MiB)",
		},
		"nearly full memory": {
			func(f *inspection.Facts) { f.Memory, f.MaxMemory = 11<<20, 12<<20 },
			Warning, "soon refuses locks, because it uses 11 MiB, 91 % of its maxmemory " +
				"(12 MiB)",
		},
		"another policy": {
			func(f *inspection.Facts) { f.Policy, f.MaxMemory = "newest-first", 1 },
			Error, "maxmemory-policy newest-first",
		},
		"polls": {
			func(f *inspection.Facts) {
				f.CommandErrors = refusals("CLIENT CACHING", "NOPERM somebody")
			},
			Warning, "ask again and again: give the user +client|caching",
		},
		"polls, unguarded": {
			func(f *inspection.Facts) {
				f.CommandErrors = append(refusals("CLIENT TRACKING", "NOPERM somebody"),
					refusals("CLIENT CACHING", "NOPERM somebody")...)
			},
			Warning, "and a flush may go unnoticed: give the user +client|tracking",
		},
		"same server": {
			func(f *inspection.Facts) { f.RunID = "run b" }, Error,
			"is the same server as b:6379 (run_id run b)",
		},
		"same data": {
			func(f *inspection.Facts) { f.ReplicationID = "data a" }, Error,
			"has the same data as a:6379",
		},
		"silent policy": {func(f *inspection.Facts) {
			f.CommandErrors = refusals("CONFIG GET", "NOPERM User somebody has no permissions")
		}, Info, "give the user +config|get"},
		"renamed": {func(f *inspection.Facts) {
			f.CommandErrors = refusals("TIME",
				"unknown command 'TIME'")
		}, Info, "does not know TIME"},
		"busy": {
			func(f *inspection.Facts) { f.CommandErrors = refusals("INFO", "BUSY with a script") },
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

func refusals(command, text string) []inspection.CommandError {
	return []inspection.CommandError{{Command: command, Text: text}}
}

// The goal: what is just good enough is not found wanting.
func TestCheck_FindsNothingInWhatIsGoodEnough(t *testing.T) {
	for name, change := range map[string]func(*inspection.Facts){
		"6.2":         func(f *inspection.Facts) { f.RedisVersion = "6.2.0" },
		"10.0":        func(f *inspection.Facts) { f.RedisVersion = "10.0" },
		"odd version": func(f *inspection.Facts) { f.RedisVersion = "next" },
		"drift": func(f *inspection.Facts) {
			f.Samples = samples(11, 1.0095,
				time.Millisecond)
		},
		"half": func(f *inspection.Facts) {
			f.Samples[0].Received = f.Samples[0].Sent.Add(
				25 * time.Millisecond)
		},
		"clients": func(f *inspection.Facts) { f.Clients, f.MaxClients = 89, 100 },
		"not told": func(f *inspection.Facts) {
			f.RunID, f.ReplicationID, f.MaxClients = "", "",
				0
		},
		"no clock": func(f *inspection.Facts) {
			f.Samples[9].Server,
				f.Samples[10].Server = time.Time{}, time.Time{}
		},
		"a single trip":  func(f *inspection.Facts) { f.Samples = f.Samples[:1] },
		"other policies": func(f *inspection.Facts) { f.Policy = "" },
	} {
		all := findingsOf(change)
		require.Len(t, all, 6, name)
		require.Equal(t, Info, worst(all), name)
	}
}

// The goal: a restart means for locks what the server's persistence lets it mean.
func TestCheck_PersistenceSaysWhatARestartMeans(t *testing.T) {
	const wait = "after one it does not vote for MaxTTL (1m0s)"
	for _, tc := range []struct {
		change func(*inspection.Facts)
		says   string
		waits  bool
	}{
		{func(*inspection.Facts) {}, "may vote at once", false},
		{func(f *inspection.Facts) { f.Rewriting = true }, "no-appendfsync-on-rewrite no would " +
			"keep them", true},
		{func(f *inspection.Facts) { f.Fsync = "everysec" }, "appendfsync everysec", true},
		{func(f *inspection.Facts) { f.AOF, f.Snapshots = false, "60 1" }, "snapshots only", true},
		{func(f *inspection.Facts) { f.AOF = false }, "has no AOF", true},
	} {
		all := findingsOf(tc.change)
		require.Len(t, all, 6)
		require.Equal(t, Info, worst(all))
		require.Contains(t, all[5].Text, tc.says)
		require.Equal(t, tc.waits, strings.Contains(all[5].Text, wait), all[5].Text)
	}
}

// The goal: a node that tells nothing gives one line about it, and none that only a told fact
// allows.
func TestCheck_OneFindingForANodeThatTellsNothing(t *testing.T) {
	all := findingsOf(func(f *inspection.Facts) {
		*f = inspection.Facts{Node: f.Node, State: link.Up, Samples: f.Samples}
	})
	require.Len(t, all, 6)
	require.Contains(t, all[4].Text, "no Redis or Valkey that tells its version")
	require.Contains(t, all[5].Text, "the server answers within")
	all = findingsOf(func(f *inspection.Facts) {
		*f = inspection.Facts{Node: f.Node, State: link.Down, Err: errors.New("refused")}
	})
	require.Len(t, all, 5)
	require.Contains(t, all[4].Text, "can't be used")
}

// The goal: two nodes that are not independent are found in either order, each one once, behind all
// that is about single nodes.
func TestCheck_FindsNodesThatAreNotIndependent(t *testing.T) {
	replica := func(of inspection.Facts) func(*inspection.Facts) {
		return func(f *inspection.Facts) {
			f.Replica, f.Master, f.ReplicationID = true, of.Node,
				of.ReplicationID
		}
	}
	same := func(of inspection.Facts) func(*inspection.Facts) {
		return func(f *inspection.Facts) { f.RunID, f.ReplicationID = of.RunID, of.ReplicationID }
	}
	change := func(facts []inspection.Facts, i int, how func(*inspection.Facts)) { how(&facts[i]) }
	for name, tc := range map[string]struct {
		change func(facts []inspection.Facts)
		want   []string
	}{
		"replica behind its master": {
			func(f []inspection.Facts) {
				change(f, 2,
					replica(
						f[0]))
			}, []string{"c:6379 is a replica of a:6379, which is listed as well"},
		},
		"replica before its master": {
			func(f []inspection.Facts) {
				change(f, 0,
					replica(
						f[2]))
			}, []string{"a:6379 is a replica of c:6379, which is listed as well"},
		},
		"two replicas": {
			func(f []inspection.Facts) { change(f, 1, replica(f[0])); change(f, 2, replica(f[0])) },
			[]string{
				"b:6379 is a replica of a:6379, which is",
				"c:6379 is a replica of a:6379, which is",
			},
		},
		"replica under another name": {
			func(f []inspection.Facts) {
				change(f, 2,
					replica(
						f[0]))
				f[2].Master = "inside:6379"
			},
			[]string{"c:6379 has the same data as a:6379"},
		},
		"three times the same": {
			func(f []inspection.Facts) { change(f, 1, same(f[0])); change(f, 2, same(f[0])) },
			[]string{"b:6379 is the same server as a:6379", "c:6379 is the same server as a:6379"},
		},
	} {
		facts := []inspection.Facts{healthy(0), healthy(1), healthy(2)}
		tc.change(facts)
		all := check(Settings{NodeTimeout: time.Second}, facts)
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
	all := findingsOf(func(f *inspection.Facts) {
		*f = inspection.Facts{
			Node: f.Node, State: link.Down, StateErr: errors.New("it is a Redis Sentinel"),
			Sentinel: true,
			Server:   f.Server, Version: f.Version, RedisVersion: f.RedisVersion,
			Samples:       f.Samples,
			CommandErrors: refusals("CONFIG GET", "unknown command"),
		}
	})
	require.Len(t, all, 6)
	require.Equal(t, Error, all[5].Severity)
	require.Contains(t, all[5].Text, "is a Redis Sentinel, which holds no data: list the masters")
}

// The goal: of two nodes that are one server, the finding is about the one that is down for it.
func TestCheck_TheSameServerIsAboutTheNodeThatIsDown(t *testing.T) {
	nodes := []inspection.Facts{healthy(0), healthy(1), healthy(2)}
	nodes[0].State, nodes[0].RunID = link.Down, nodes[2].RunID
	all := check(Settings{NodeTimeout: time.Second}, nodes)
	require.Len(t, all, 7)
	require.Equal(t, "a:6379", all[6].Node)
	require.Contains(t, all[6].Text, "is the same server as c:6379")
}

// The goal: one node is better off with GuardStrict, and the finding says why.
func TestCheck_OneNodeIsAdvisedToUseGuardStrict(t *testing.T) {
	for mode, want := range map[restartguard.Mode]int{
		restartguard.Auto: 1, restartguard.Strict: 0, restartguard.Off: 0,
	} {
		for n := 1; n <= 2; n++ {
			set := Settings{NodeTimeout: time.Second, MaxTTL: time.Minute, Guard: mode}
			found := 0
			for _, f := range check(set, []inspection.Facts{healthy(0), healthy(1)}[:n]) {
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
		var facts []inspection.Facts
		for i := range n {
			facts = append(facts, healthy(i))
		}
		all := check(Settings{NodeTimeout: time.Second, Guard: restartguard.Strict}, facts)
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
		var all []inspection.Sample
		at := time.Duration(0)
		for range 2 + random.IntN(20) {
			there, back := time.Duration(random.Int64N(5e7)), time.Duration(random.Int64N(5e7))
			all = append(all, inspection.Sample{
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

// The goal: an operator sees which layouts are in use, for how long at most, and which one is not
// excluded. What has ended by the server's clock is not listed.
func TestCheck_LayoutsInUse(t *testing.T) {
	facts := []inspection.Facts{healthy(0), healthy(1), healthy(2)}
	set := Settings{
		NodeTimeout: 50 * time.Millisecond, MaxTTL: time.Minute, Layouts: []string{"b", "a"},
	}
	entries := func(node int, entries ...layout.Entry) {
		now := serverMillis(facts[node].Samples)
		for _, e := range entries {
			facts[node].Layouts = append(facts[node].Layouts, layout.Entry{
				IDs: e.IDs, Millis: now + e.Millis,
			})
		}
	}
	require.Equal(t, Info, worst(check(set, facts)))
	entries(0, layout.Entry{IDs: "a,b", Millis: 90_001}, layout.Entry{IDs: "b", Millis: 5000})
	entries(1, layout.Entry{IDs: "a,b", Millis: 1000}, layout.Entry{IDs: "b", Millis: 6000},
		layout.Entry{IDs: "old", Millis: -1})
	all := check(set, facts)
	require.Equal(t, Info, worst(all))
	require.Equal(t, Finding{"", Info, "layouts in use: a,b (this client's) until at most 1m31s " +
		"from now; b until at most 6s from now"}, all[len(all)-1])
	entries(2, layout.Entry{IDs: "c", Millis: 1000})
	entries(0, layout.Entry{IDs: "c", Millis: 1000})
	all = check(set, facts)
	last := all[len(all)-1]
	require.Equal(t, Error, last.Severity)
	require.Contains(t, last.Text, "the layout c (seen on a:6379, c:6379), which shares no quorum")
	require.Contains(t, last.Text, "(a,b)")
}

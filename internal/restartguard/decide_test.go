package restartguard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// moment is some time with a monotonic clock, and at is so many seconds after it.
var moment = time.Now()

func at(seconds float64) time.Time {
	return moment.Add(time.Duration(seconds * float64(time.Second)))
}

// The goal: each way in which a server may have lost locks counts against it, and
// only that. Times are in seconds, now is 1000 and the longest TTL 60; admitted is 0.
func TestDecide_ByWhatAServerMayHaveLost(t *testing.T) {
	unmarked := serverInfo{
		runID: "new", uptime: 5 * time.Second, uptimeAskedAt: at(1000), markerAskedAt: at(1000),
	}
	change := func(f func(*serverInfo)) serverInfo {
		s := unmarked
		f(&s)
		return s
	}
	other := func(s *serverInfo) { s.marker = "old" }
	lost := func(s *serverInfo) { s.marker, s.durable = lossPrefix+"1", true }
	vouched := func(s *serverInfo) { s.marker, s.durable, s.vouched = "old", true, true }
	knew := nodeHistory{runID: "old", admitted: true, lastSeen: at(980)}
	formerly := func(s *serverInfo, run string) {
		s.memoryID, s.markerReadAt = "new.1", at(1000)
		s.expiresIn = formerRunKept + time.Hour
		s.marker = lossRecord{lossPrefix, s.expiresIn, s.memoryID, run}.text()
	}
	aged := func(s *serverInfo, age time.Duration) { // of which a second does not count
		formerly(s, "")
		s.expiresIn -= age
	}
	recorded := change(func(s *serverInfo) { aged(s, 20*time.Second) })
	for _, test := range []struct {
		name  string
		s     serverInfo
		m     nodeHistory
		until float64 // 0: admitted
		mark  bool
		why   string
		whole bool // with mark
	}{
		{name: "its own marker", s: change(func(s *serverInfo) { s.marker = "new" })},
		{
			name: "its own marker ends a quarantine",
			s:    change(func(s *serverInfo) { s.marker = "new" }),
			m:    nodeHistory{runID: "new", until: at(1030)},
		},
		{name: "unknown, no marker", s: unmarked, until: 1060, why: reasonNoMarker},
		{name: "unknown, another marker", s: change(other), until: 1060, why: reasonForeignMarker},
		{
			name: "known server, no marker: wiped now", s: unmarked,
			m: nodeHistory{runID: "new", admitted: true}, until: 1060, why: reasonWiped,
		},
		{
			name: "known server, another's marker", s: change(other),
			m: nodeHistory{runID: "new", admitted: true}, until: 1060,
			why: reasonForeignMarker,
		},
		{name: "durable restart", s: change(vouched), m: knew, mark: true, whole: true},
		{name: "durable restart, new client", s: change(vouched), mark: true, whole: true},
		{
			name: "durable restart, not vouched for",
			s:    change(func(s *serverInfo) { other(s); s.durable = true }), m: knew, until: 1056,
			why: reasonUnvouched,
		},
		{
			name: "durable restart, vouched for later", s: change(vouched),
			m: nodeHistory{
				runID: "new", marker: "old", until: at(1056), recovering: true, reason: "w",
			},
			mark: true, whole: true,
		},
		{
			name: "durable restart, and its first replica came",
			s:    change(func(s *serverInfo) { vouched(s); s.memoryID = "new.2" }),
			m: nodeHistory{
				runID: "new", memoryID: "new.1", marker: "old", until: at(1056),
				recovering: true, reason: "w",
			},
			mark: true, whole: true,
		},
		{
			name: "durable restart, and its first replica came, and it was recorded",
			s:    change(func(s *serverInfo) { vouched(s); formerly(s, "old") }),
			m: nodeHistory{
				runID: "new", memoryID: "new.0",
				marker: lossRecord{lossPrefix, time.Hour, "new.0", "old"}.text(),
				until:  at(1056), recovering: true, reason: "w",
			},
			mark: true, whole: true,
		},
		{
			name: "durable restart, but promoted since",
			s: change(func(s *serverInfo) {
				vouched(s)
				s.memoryID, s.maybePromoted = "new.2", true
			}),
			m: nodeHistory{
				runID: "new", memoryID: "new.1", marker: "old", until: at(1056),
				recovering: true, reason: "w",
			},
			until: 1060, why: reasonForeignMarker,
		},
		{
			name: "durable restart, and then the marker of yet another run",
			s:    change(func(s *serverInfo) { vouched(s); s.memoryID = "new.2" }),
			m: nodeHistory{
				runID: "new", memoryID: "new.1", marker: "older", until: at(1056),
				recovering: true, reason: "w",
			},
			until: 1060, why: reasonForeignMarker,
		},
		{
			name: "another run since it was first seen", s: change(vouched),
			m:     nodeHistory{runID: "new", marker: "old", until: at(1056), reason: "w"},
			until: 1056, why: "w",
		},
		{
			name: "disk put back",
			s:    change(func(s *serverInfo) { other(s); s.durable, s.outdated = true, true }),
			m:    knew, until: 1056, why: reasonRestored,
		},
		{
			name:  "disk put back, new client",
			s:     change(func(s *serverInfo) { other(s); s.durable, s.outdated = true, true }),
			until: 1060, why: reasonRestored,
		},
		{
			name: "disk put back, found out later",
			s:    change(func(s *serverInfo) { other(s); s.durable, s.outdated = true, true }),
			m: nodeHistory{
				runID: "new", marker: "old", until: at(1056), recovering: true, reason: "w",
			},
			until: 1056, why: reasonRestored,
		},
		{
			name: "disk put back, and admitted by another client",
			s: change(func(s *serverInfo) {
				s.marker, s.durable, s.outdated = "new", true, true
			}),
			m: knew, until: 1056, why: reasonRestored,
		},
		{
			name: "memory put back",
			s: change(func(s *serverInfo) {
				s.marker, s.durable, s.outdated = "new", true, true
			}),
			m: nodeHistory{runID: "new", admitted: true}, until: 1060, why: reasonRestored,
		},
		{
			name: "memory put back to a time when it was recorded",
			s:    change(func(s *serverInfo) { aged(s, 62*time.Second); s.outdated = true }),
			m: nodeHistory{
				runID: "new", memoryID: "new.1", marker: "new", admitted: true,
				lastSeen: at(900),
			},
			until: 1060, why: reasonRestored,
		},
		{
			name:  "memory put back to a time when it was recorded, new client",
			s:     change(func(s *serverInfo) { aged(s, 62*time.Second); s.outdated = true }),
			until: 1060, why: reasonRestored,
		},
		{
			name: "memory put back to a time when it was recorded, without a generation",
			s:    change(func(s *serverInfo) { aged(s, 62*time.Second) }),
			m: nodeHistory{
				runID: "new", memoryID: "new.1", marker: "new", admitted: true,
				lastSeen: at(990),
			},
			until: 1050, why: reasonWiped,
		},
		{
			name: "waited long enough for what was put back",
			s:    change(func(s *serverInfo) { s.marker, s.outdated = lossPrefix+"1", true }),
			m:    nodeHistory{runID: "new", until: at(1000), marker: lossPrefix + "1"}, mark: true,
		},
		{
			name:  "durable since it was quarantined",
			s:     change(func(s *serverInfo) { other(s); s.durable = true }),
			m:     nodeHistory{runID: "new", marker: "old", until: at(1001), reason: "w"},
			until: 1001, why: "w",
		},
		{
			name: "durable restart of a run that was never admitted",
			s:    change(func(s *serverInfo) { other(s); s.durable = true }),
			m:    nodeHistory{runID: "between", until: at(1001)}, until: 1056, why: reasonRestarted,
		},
		{
			name: "durable without a marker", s: change(func(s *serverInfo) { s.durable = true }),
			until: 1060, why: reasonNoMarker,
		},
		{
			name:  "durable, perhaps only since its start",
			s:     change(func(s *serverInfo) { other(s); s.durable, s.aofRewritten = true, true }),
			until: 1060, why: reasonForeignMarker,
		},
		{
			name: "durable without a marker, rewritten",
			s:    change(func(s *serverInfo) { s.durable, s.aofRewritten = true, true }), m: knew,
			until: 1060, why: reasonRestarted,
		},
		{
			name: "durable, but promoted",
			s:    change(func(s *serverInfo) { other(s); s.durable, s.maybePromoted = true, true }),
			m:    knew, until: 1060, why: reasonReplaced,
		},
		{
			name: "restarted at 996 at the latest", s: change(other), m: knew, until: 1056,
			why: reasonRestarted,
		},
		{name: "restarted empty", s: unmarked, m: knew, until: 1056, why: reasonRestarted},
		{
			name: "the old server was there until 999", s: unmarked,
			m: nodeHistory{runID: "old", lastSeen: at(999)}, until: 1059, why: reasonRestarted,
		},
		{
			name: "restarted this second", s: change(func(s *serverInfo) { s.uptime = 0 }),
			m: knew, until: 1060, why: reasonRestarted,
		},
		{
			name: "durable, so its start was not the loss",
			s:    change(func(s *serverInfo) { s.durable = true }), m: knew, until: 1060,
			why: reasonRestarted,
		},
		{
			name: "wiped while it waits", s: unmarked,
			m:     nodeHistory{runID: "new", lastSeen: at(999), until: at(1000), marker: "old"},
			until: 1060, why: reasonNoMarker,
		},
		{name: "another client knows of a loss", s: change(lost), until: 1060, why: reasonNoMarker},
		{
			name: "restarted durably after a wipe, perhaps later than its start", s: change(lost),
			m: knew, until: 1060, why: reasonRestarted,
		},
		{name: "recorded a while ago", s: recorded, until: 1041, why: reasonNoMarker},
		{
			name: "recorded long ago", s: change(func(s *serverInfo) { aged(s, 62*time.Second) }),
			mark: true,
		},
		{
			name: "recorded long ago, and the client is back",
			s:    change(func(s *serverInfo) { aged(s, 62*time.Second) }),
			m:    nodeHistory{runID: "new", admitted: true, lastSeen: at(900)}, mark: true,
		},
		{
			name: "recorded just now", s: change(func(s *serverInfo) { aged(s, 0) }), until: 1060,
			why: reasonNoMarker,
		},
		{
			name: "recorded long ago, in the place of another run",
			s: change(func(s *serverInfo) {
				formerly(s, "old")
				s.expiresIn -= 59 * time.Minute
			}),
			mark: true,
		},
		{
			name: "recorded too long ago, in the place of another run",
			s: change(func(s *serverInfo) {
				formerly(s, "old")
				s.expiresIn -= 61 * time.Minute
			}),
			until: 1060, why: reasonForeignMarker,
		},
		{
			name: "durable restart that was recorded too long ago",
			s: change(func(s *serverInfo) {
				vouched(s)
				formerly(s, "old")
				s.expiresIn -= 61 * time.Minute
			}),
			mark: true, whole: true,
		},
		{
			name: "recorded a while ago, and never again",
			s: change(func(s *serverInfo) {
				aged(s, 20*time.Second)
				s.expiresIn = -time.Millisecond
			}),
			until: 1060, why: reasonNoMarker,
		},
		{
			name:  "recorded before it had another memory",
			s:     change(func(s *serverInfo) { aged(s, 20*time.Second); s.memoryID = "new.2" }),
			until: 1060, why: reasonNoMarker,
		},
		{
			name:  "recorded, with a history that it does not show",
			s:     change(func(s *serverInfo) { aged(s, 20*time.Second); s.memoryID = "" }),
			until: 1060, why: reasonNoMarker,
		},
		{
			name: "recorded a while ago, and the client knew another server since", s: recorded,
			m: nodeHistory{runID: "old", lastSeen: at(990)}, until: 1050, why: reasonRestarted,
		},
		{
			name: "recorded a while ago, and the client knew another server before", s: recorded,
			m: nodeHistory{runID: "old", lastSeen: at(970)}, until: 1041, why: reasonRestarted,
		},
		{
			name: "recorded a while ago, started before",
			s: change(func(s *serverInfo) {
				aged(s, 20*time.Second)
				s.uptime = 30 * time.Second
			}),
			m: nodeHistory{runID: "old", lastSeen: at(969)}, until: 1031, why: reasonRestarted,
		},
		{
			name: "recorded while it waits", s: change(func(s *serverInfo) { formerly(s, "old") }),
			m: nodeHistory{
				runID: "new", memoryID: "new.1", marker: "old", until: at(1030), reason: "w",
			},
			until: 1030, why: "w",
		},
		{
			name:  "recorded for another reason while it waits",
			s:     change(func(s *serverInfo) { formerly(s, "another") }),
			m:     nodeHistory{runID: "new", memoryID: "new.1", marker: "old", until: at(1030)},
			until: 1060, why: reasonForeignMarker,
		},
		{
			name: "a replica and promoted while it waits", s: recorded,
			m: nodeHistory{
				runID: "new", memoryID: "new.0", marker: recorded.marker, until: at(1030),
			},
			until: 1041, why: reasonNoMarker,
		},
		{
			name: "durable restart that was recorded",
			s: change(func(s *serverInfo) {
				vouched(s)
				formerly(s, "old")
			}), m: knew, mark: true,
			whole: true,
		},
		{
			name: "durable restart of another run that was recorded",
			s:    change(func(s *serverInfo) { vouched(s); formerly(s, "another") }), m: knew,
			until: 1056, why: reasonRestarted,
		},
		{
			name: "wiped once more while it waits", s: change(lost),
			m: nodeHistory{runID: "new", until: at(1000), marker: lossPrefix + "2"}, until: 1060,
			why: reasonNoMarker,
		},
		{
			name: "waited long enough for that loss", s: change(lost),
			m: nodeHistory{runID: "new", until: at(1000), marker: lossPrefix + "1"}, mark: true,
		},
		{
			name: "wiped, which another client saw, after its start",
			s:    change(func(s *serverInfo) { s.marker = wipedPrefix + "1" }), m: knew,
			until: 1060, why: reasonRestarted,
		},
		{
			name: "stopped since it asked",
			s:    change(func(s *serverInfo) { s.markerAskedAt = at(999) }),
			m:    nodeHistory{runID: "new", until: at(1000), reason: "w"}, until: 1000, why: "w",
		},
		{
			name: "an old server since it was asked",
			s: change(func(s *serverInfo) {
				s.uptime, s.uptimeAskedAt = 59*time.Second, at(998)
			}),
			m: knew, until: 1060, why: reasonRestarted,
		},
		{
			name: "promoted", s: change(func(s *serverInfo) { s.maybePromoted = true }), m: knew,
			until: 1060, why: reasonReplaced,
		},
		{
			name: "an old server", s: change(func(s *serverInfo) { s.uptime = time.Minute }),
			m: knew, until: 1060, why: reasonRestarted,
		},
		{
			name: "old within this second",
			s: change(func(s *serverInfo) {
				s.uptime, s.uptimeAskedAt = 59*time.Second, at(999.9)
			}),
			m: knew, until: 1060, why: reasonRestarted,
		},
		{
			name: "not old yet", s: change(func(s *serverInfo) { s.uptime = 59 * time.Second }),
			m: nodeHistory{runID: "old", lastSeen: at(900)}, until: 1002, why: reasonRestarted,
		},
		{
			name: "a replica since it was admitted",
			s:    change(func(s *serverInfo) { s.marker, s.maybePromoted = "new", true }),
			m:    nodeHistory{runID: "new", admitted: true, replicaRunID: "new"}, until: 1060,
			why: reasonWasReplica,
		},
		{
			name: "a replica, seen by a new client",
			s:    change(func(s *serverInfo) { s.marker, s.maybePromoted = "new", true }),
			m:    nodeHistory{replicaRunID: "new"}, until: 1060, why: reasonWasReplica,
		},
		{
			name: "another one was a replica", s: change(func(s *serverInfo) { s.marker = "new" }),
			m: nodeHistory{runID: "old", admitted: true, replicaRunID: "between"},
		},
		{
			name: "waited long enough as a master",
			s:    change(func(s *serverInfo) { s.marker, s.maybePromoted = "new", true }),
			m: nodeHistory{
				runID: "new", marker: "new", replicaRunID: "new", until: at(1000), reason: "w",
			},
			mark: true,
		},
		{
			name: "a replica since it was admitted, unseen",
			s: change(func(s *serverInfo) {
				s.marker, s.maybePromoted, s.memoryID = "new", true, "new.2"
			}),
			m: nodeHistory{
				runID: "new", admitted: true, admittedMemoryID: "new.1", memoryID: "new.1",
			},
			until: 1060, why: reasonWasReplica,
		},
		{
			name: "a replica since it was admitted, with another master meanwhile",
			s: change(func(s *serverInfo) {
				s.marker, s.maybePromoted, s.memoryID = "new", true, "new.2"
			}),
			m: nodeHistory{
				runID: "between", until: at(1001), admittedMemoryID: "new.1",
				memoryID: "between.1",
			},
			until: 1060, why: reasonWasReplica,
		},
		{
			name: "a replica that shows its history no more",
			s:    change(func(s *serverInfo) { s.marker, s.maybePromoted = "new", true }),
			m: nodeHistory{
				runID: "new", admitted: true, admittedMemoryID: "new.1", memoryID: "new.1",
			},
			until: 1060, why: reasonWasReplica,
		},
		{
			name: "promoted before it was admitted",
			s: change(func(s *serverInfo) {
				s.marker, s.maybePromoted, s.memoryID = "new", true, "new.1"
			}),
			m: nodeHistory{
				runID: "new", admitted: true, admittedMemoryID: "new.1", memoryID: "new.1",
			},
		},
		{
			name: "a new history of a master that lost its replicas",
			s:    change(func(s *serverInfo) { s.marker, s.memoryID = "new", "new.2" }),
			m: nodeHistory{
				runID: "new", admitted: true, admittedMemoryID: "new.1", memoryID: "new.1",
			},
		},
		{
			name: "the history of another server",
			s: change(func(s *serverInfo) {
				s.marker, s.maybePromoted, s.memoryID = "new", true, "new.2"
			}),
			m: nodeHistory{
				runID: "old", admitted: true, admittedMemoryID: "old.1", memoryID: "old.1",
			},
		},
		{
			name: "of unknown age", s: change(func(s *serverInfo) { s.uptime = -1 }), m: knew,
			until: 1060, why: reasonRestarted,
		},
		{
			name: "waiting", s: unmarked,
			m: nodeHistory{runID: "new", until: at(1001), reason: "w"}, until: 1001, why: "w",
		},
		{
			name: "waited long enough", s: unmarked,
			m: nodeHistory{runID: "new", until: at(1000), reason: "w"}, mark: true,
		},
		{
			name: "restarted while waiting", s: unmarked,
			m: nodeHistory{runID: "old", lastSeen: at(990), until: at(1001)}, until: 1056,
			why: reasonRestarted,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.m.everAdmitted = true
			d, m := decide(&test.s, test.m, time.Minute, at(1000))
			want := decision{admit: test.until == 0, writeMarker: test.mark, keptMemory: test.whole}
			if test.until > 0 {
				want.until, want.reason = at(test.until), test.why
				require.Equal(t, want.until, m.until, "and stays so")
			}
			require.Equal(t, want, d)
			require.Equal(t, "new", m.runID)
			require.True(t, m.everAdmitted, "of whatever server")
			m.everAdmitted = false
			require.Equal(t, nodeHistory{
				runID: "new", memoryID: test.s.memoryID, admittedMemoryID: test.s.memoryID,
				marker:   "new",
				admitted: true, everAdmitted: true, lastSeen: at(1000),
			}, m.afterAdmission())
			require.Equal(t, at(1000), m.lastSeen)
		})
	}
}

// The goal: a client that saw a replica, and later that it has not its own marker as a master,
// admits it when another client has.
func TestDecide_AFormerReplicaIsAdmittedByAnothersMarker(t *testing.T) {
	s := serverInfo{
		runID: "new", marker: "old", maybePromoted: true, uptime: time.Hour,
		uptimeAskedAt: at(1000), markerAskedAt: at(1000),
	}
	d, m := decide(&s, nodeHistory{replicaRunID: "new"}, time.Minute, at(1000))
	require.Equal(t, decision{until: at(1060), reason: reasonWasReplica}, d)
	s.marker = "new"
	d, _ = decide(&s, m, time.Minute, at(1001))
	require.True(t, d.admit)

	s.marker, s.memoryID = "old", "new.2" // the client did not see it as a replica
	knew := nodeHistory{runID: "new", admittedMemoryID: "new.1", memoryID: "new.1"}
	d, m = decide(&s, knew, time.Minute, at(1000))
	require.Equal(t, decision{until: at(1060), reason: reasonWasReplica}, d)
	s.marker = "new"
	d, _ = decide(&s, m, time.Minute, at(1001))
	require.True(t, d.admit)
}

// The goal: a server that comes back after another one took its place has to wait, if it was a
// replica since this client admitted it. Its own marker may be a copy.
func TestDecide_AMasterThatGetsItsRoleBackWaits(t *testing.T) {
	server := func(runID, replID string, second float64) *serverInfo {
		return &serverInfo{
			runID: runID, marker: "a", memoryID: runID + "." + replID,
			maybePromoted: second > 1000, uptime: time.Hour,
			uptimeAskedAt: at(second), markerAskedAt: at(second),
		}
	}
	d, m := decide(server("a", "1", 1000), nodeHistory{}, time.Minute, at(1000))
	require.True(t, d.admit)
	d, m = decide(server("b", "2", 1001), m.afterAdmission(), time.Minute, at(1001))
	require.Equal(t, decision{until: at(1061), reason: reasonReplaced}, d)
	d, m = decide(server("a", "3", 1002), m, time.Minute, at(1002))
	require.Equal(t, decision{until: at(1062), reason: reasonWasReplica}, d)
	d, m = decide(server("a", "3", 1062), m, time.Minute, at(1062))
	require.Equal(t, decision{admit: true, writeMarker: true}, d)
	d, _ = decide(server("a", "3", 1063), m.afterAdmission(), time.Minute, at(1063))
	require.Equal(t, decision{admit: true}, d)
}

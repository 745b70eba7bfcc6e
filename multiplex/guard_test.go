package multiplex

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// moment is some time with a monotonic clock, and at is so many seconds after it.
var moment = time.Now()

func at(seconds float64) time.Time {
	return moment.Add(time.Duration(seconds * float64(
		time.Second)))
}

// The goal: each way in which a server may have forgotten locks is judged against this client, and
// only that. Times are in seconds, now is 1000 and the longest TTL 60; admitted is 0.
func TestTheGuardJudgesWhatAServerMayHaveForgotten(t *testing.T) {
	unmarked := sight{runID: "new", uptime: 5 * time.Second, introduced: at(1000), asked: at(1000)}
	change := func(f func(*sight)) sight {
		s := unmarked
		f(&s)
		return s
	}
	other := func(s *sight) { s.marker = "old" }
	lost := func(s *sight) { s.marker, s.durable = lostPrefix+"1", true }
	vouched := func(s *sight) { s.marker, s.durable, s.vouched = "old", true, true }
	knew := memory{runID: "old", admitted: true, seen: at(980)}
	formerly := func(s *sight, run string) {
		s.history, s.read = "new.1", at(1000)
		s.left = formerKept + time.Hour
		s.marker = mark{lostPrefix, s.left, s.history, run}.text()
	}
	aged := func(s *sight, age time.Duration) { // of which a second does not count
		formerly(s, "")
		s.left -= age
	}
	marked := change(func(s *sight) { aged(s, 20*time.Second) })
	for _, test := range []struct {
		name  string
		s     sight
		m     memory
		until float64 // 0: admitted
		mark  bool
		why   string
		whole bool // with mark
	}{
		{name: "its own marker", s: change(func(s *sight) { s.marker = "new" })},
		{
			name: "its own marker ends a quarantine",
			s:    change(func(s *sight) { s.marker = "new" }),
			m:    memory{runID: "new", until: at(1030)},
		},
		{name: "unknown, no marker", s: unmarked, until: 1060, why: whyUnmarked},
		{name: "unknown, another marker", s: change(other), until: 1060, why: whyForeign},
		{name: "known server, no marker: flushed now", s: unmarked, m: memory{
			runID:    "new",
			admitted: true,
		}, until: 1060, why: whyFlushed},
		{name: "known server, another's marker", s: change(other), m: memory{
			runID:    "new",
			admitted: true,
		}, until: 1060, why: whyForeign},
		{name: "durable restart", s: change(vouched), m: knew, mark: true, whole: true},
		{name: "durable restart, new client", s: change(vouched), mark: true, whole: true},
		{
			name: "durable restart, not vouched for",
			s:    change(func(s *sight) { other(s); s.durable = true }), m: knew, until: 1056,
			why: whyUnvouched,
		},
		{name: "durable restart, vouched for later", s: change(vouched), m: memory{
			runID:  "new",
			marker: "old", until: at(1056), recovering: true, why: "w",
		}, mark: true, whole: true},
		{
			name: "durable restart, and its first replica came",
			s:    change(func(s *sight) { vouched(s); s.history = "new.2" }), m: memory{
				runID:   "new",
				history: "new.1", marker: "old", until: at(1056), recovering: true,
				why: "w",
			}, mark: true, whole: true,
		},
		{
			name: "durable restart, and its first replica came, and it was marked",
			s:    change(func(s *sight) { vouched(s); formerly(s, "old") }), m: memory{
				runID:   "new",
				history: "new.0", marker: mark{lostPrefix, time.Hour, "new.0", "old"}.text(),
				until: at(1056), recovering: true, why: "w",
			}, mark: true, whole: true,
		},
		{
			name: "durable restart, but promoted since",
			s:    change(func(s *sight) { vouched(s); s.history, s.promoted = "new.2", true }),
			m: memory{
				runID: "new", history: "new.1", marker: "old", until: at(1056),
				recovering: true, why: "w",
			}, until: 1060, why: whyForeign,
		},
		{
			name: "durable restart, and then the marker of yet another run",
			s:    change(func(s *sight) { vouched(s); s.history = "new.2" }), m: memory{
				runID:   "new",
				history: "new.1", marker: "older", until: at(1056), recovering: true,
				why: "w",
			}, until: 1060, why: whyForeign,
		},
		{name: "another run since it was first seen", s: change(vouched), m: memory{
			runID:  "new",
			marker: "old", until: at(1056), why: "w",
		}, until: 1056, why: "w"},
		{name: "disk put back", s: change(func(s *sight) {
			other(s)
			s.durable, s.forgot = true,
				true
		}), m: knew, until: 1056, why: whyRestored},
		{name: "disk put back, new client", s: change(func(s *sight) {
			other(s)
			s.durable,
				s.forgot = true, true
		}), until: 1060, why: whyRestored},
		{name: "disk put back, found out later", s: change(func(s *sight) {
			other(s)
			s.durable,
				s.forgot = true,
				true
		}), m: memory{
			runID: "new", marker: "old", until: at(1056), recovering: true,
			why: "w",
		}, until: 1056, why: whyRestored},
		{name: "disk put back, and admitted by another client", s: change(func(s *sight) {
			s.marker,
				s.durable, s.forgot = "new", true, true
		}), m: knew, until: 1056, why: whyRestored},
		{name: "memory put back", s: change(func(s *sight) {
			s.marker, s.durable, s.forgot = "new",
				true, true
		}), m: memory{runID: "new", admitted: true}, until: 1060, why: whyRestored},
		{
			name: "memory put back to a time when it was marked",
			s:    change(func(s *sight) { aged(s, 62*time.Second); s.forgot = true }),
			m: memory{
				runID: "new", history: "new.1", marker: "new", admitted: true,
				seen: at(900),
			},
			until: 1060, why: whyRestored,
		},
		{
			name: "memory put back to a time when it was marked, new client",
			s:    change(func(s *sight) { aged(s, 62*time.Second); s.forgot = true }), until: 1060,
			why: whyRestored,
		},
		{
			name: "memory put back to a time when it was marked, without a generation",
			s:    change(func(s *sight) { aged(s, 62*time.Second) }), m: memory{
				runID:   "new",
				history: "new.1", marker: "new", admitted: true,
				seen: at(990),
			}, until: 1050, why: whyFlushed,
		},
		{
			name: "waited long enough for what was put back", s: change(func(s *sight) {
				s.marker,
					s.forgot = lostPrefix+"1",
					true
			}), m: memory{runID: "new", until: at(1000), marker: lostPrefix + "1"},
			mark: true,
		},
		{
			name: "durable since it was quarantined",
			s:    change(func(s *sight) { other(s); s.durable = true }), m: memory{
				runID:  "new",
				marker: "old", until: at(1001), why: "w",
			}, until: 1001, why: "w",
		},
		{
			name: "durable restart of a run that was never admitted",
			s:    change(func(s *sight) { other(s); s.durable = true }), m: memory{
				runID: "between",
				until: at(1001),
			}, until: 1056, why: whyRestarted,
		},
		{
			name: "durable without a marker", s: change(func(s *sight) { s.durable = true }),
			until: 1060, why: whyUnmarked,
		},
		{
			name:  "durable, perhaps only since its start",
			s:     change(func(s *sight) { other(s); s.durable, s.rewritten = true, true }),
			until: 1060, why: whyForeign,
		},
		{name: "durable without a marker, rewritten", s: change(func(s *sight) {
			s.durable,
				s.rewritten = true, true
		}), m: knew, until: 1060, why: whyRestarted},
		{name: "durable, but promoted", s: change(func(s *sight) {
			other(s)
			s.durable,
				s.promoted = true, true
		}), m: knew, until: 1060, why: whyReplaced},
		{
			name: "restarted at 996 at the latest", s: change(other), m: knew, until: 1056,
			why: whyRestarted,
		},
		{name: "restarted empty", s: unmarked, m: knew, until: 1056, why: whyRestarted},
		{name: "the old server was there until 999", s: unmarked, m: memory{
			runID: "old",
			seen:  at(999),
		}, until: 1059, why: whyRestarted},
		{
			name: "restarted this second", s: change(func(s *sight) { s.uptime = 0 }), m: knew,
			until: 1060, why: whyRestarted,
		},
		{
			name: "durable, so its start was not the loss",
			s:    change(func(s *sight) { s.durable = true }), m: knew, until: 1060,
			why: whyRestarted,
		},
		{name: "flushed while it waits", s: unmarked, m: memory{
			runID: "new", seen: at(999),
			until: at(1000), marker: "old",
		}, until: 1060, why: whyUnmarked},
		{name: "another client knows of a loss", s: change(lost), until: 1060, why: whyUnmarked},
		{
			name: "restarted durably after a flush, perhaps later than its start", s: change(lost),
			m: knew, until: 1060, why: whyRestarted,
		},
		{name: "marked a while ago", s: marked, until: 1041, why: whyUnmarked},
		{
			name: "marked long ago", s: change(func(s *sight) { aged(s, 62*time.Second) }),
			mark: true,
		},
		{
			name: "marked long ago, and the client is back",
			s:    change(func(s *sight) { aged(s, 62*time.Second) }), m: memory{
				runID:    "new",
				admitted: true, seen: at(900),
			}, mark: true,
		},
		{
			name: "marked just now", s: change(func(s *sight) { aged(s, 0) }), until: 1060,
			why: whyUnmarked,
		},
		{
			name: "marked long ago, in the place of another run",
			s:    change(func(s *sight) { formerly(s, "old"); s.left -= 59 * time.Minute }),
			mark: true,
		},
		{
			name:  "marked too long ago, in the place of another run",
			s:     change(func(s *sight) { formerly(s, "old"); s.left -= 61 * time.Minute }),
			until: 1060, why: whyForeign,
		},
		{
			name: "durable restart that was marked too long ago",
			s: change(func(s *sight) {
				vouched(s)
				formerly(s,
					"old")
				s.left -= 61 * time.Minute
			}), mark: true, whole: true,
		},
		{
			name:  "marked a while ago, and never again",
			s:     change(func(s *sight) { aged(s, 20*time.Second); s.left = -time.Millisecond }),
			until: 1060, why: whyUnmarked,
		},
		{
			name:  "marked before it had another memory",
			s:     change(func(s *sight) { aged(s, 20*time.Second); s.history = "new.2" }),
			until: 1060,
			why:   whyUnmarked,
		},
		{
			name: "marked, with a history that it does not show",
			s:    change(func(s *sight) { aged(s, 20*time.Second); s.history = "" }), until: 1060,
			why: whyUnmarked,
		},
		{
			name: "marked a while ago, and the client knew another server since", s: marked,
			m: memory{runID: "old", seen: at(990)}, until: 1050, why: whyRestarted,
		},
		{
			name: "marked a while ago, and the client knew another server before", s: marked,
			m: memory{runID: "old", seen: at(970)}, until: 1041, why: whyRestarted,
		},
		{
			name: "marked a while ago, started before",
			s:    change(func(s *sight) { aged(s, 20*time.Second); s.uptime = 30 * time.Second }),
			m:    memory{runID: "old", seen: at(969)}, until: 1031, why: whyRestarted,
		},
		{
			name: "marked while it waits", s: change(func(s *sight) { formerly(s, "old") }),
			m:     memory{runID: "new", history: "new.1", marker: "old", until: at(1030), why: "w"},
			until: 1030, why: "w",
		},
		{
			name: "marked for another reason while it waits",
			s:    change(func(s *sight) { formerly(s, "another") }), m: memory{
				runID:   "new",
				history: "new.1", marker: "old", until: at(1030),
			}, until: 1060, why: whyForeign,
		},
		{name: "a replica and promoted while it waits", s: marked, m: memory{
			runID:   "new",
			history: "new.0", marker: marked.marker,
			until: at(1030),
		}, until: 1041, why: whyUnmarked},
		{name: "durable restart that was marked", s: change(func(s *sight) {
			vouched(s)
			formerly(s,
				"old")
		}), m: knew, mark: true, whole: true},
		{
			name: "durable restart of another run that was marked",
			s:    change(func(s *sight) { vouched(s); formerly(s, "another") }), m: knew,
			until: 1056,
			why:   whyRestarted,
		},
		{name: "flushed once more while it waits", s: change(lost), m: memory{
			runID: "new",
			until: at(1000), marker: lostPrefix + "2",
		}, until: 1060, why: whyUnmarked},
		{name: "waited long enough for that loss", s: change(lost), m: memory{
			runID: "new",
			until: at(1000), marker: lostPrefix + "1",
		}, mark: true},
		{
			name: "flushed, which another client saw, after its start",
			s:    change(func(s *sight) { s.marker = flushedPrefix + "1" }), m: knew, until: 1060,
			why: whyRestarted,
		},
		{
			name: "stopped since it asked", s: change(func(s *sight) { s.asked = at(999) }),
			m: memory{runID: "new", until: at(1000), why: "w"}, until: 1000, why: "w",
		},
		{name: "an old server since it was asked", s: change(func(s *sight) {
			s.uptime,
				s.introduced = 59*time.Second, at(998)
		}), m: knew, until: 1060, why: whyRestarted},
		{
			name: "promoted", s: change(func(s *sight) { s.promoted = true }), m: knew, until: 1060,
			why: whyReplaced,
		},
		{
			name: "an old server", s: change(func(s *sight) { s.uptime = time.Minute }), m: knew,
			until: 1060, why: whyRestarted,
		},
		{name: "old within this second", s: change(func(s *sight) {
			s.uptime,
				s.introduced = 59*time.Second, at(999.9)
		}), m: knew, until: 1060, why: whyRestarted},
		{
			name: "not old yet", s: change(func(s *sight) { s.uptime = 59 * time.Second }),
			m: memory{runID: "old", seen: at(900)}, until: 1002, why: whyRestarted,
		},
		{
			name: "a replica since it was admitted", s: change(func(s *sight) {
				s.marker,
					s.promoted = "new",
					true
			}), m: memory{runID: "new", admitted: true, replica: "new"}, until: 1060,
			why: whyDemoted,
		},
		{name: "a replica, seen by a new client", s: change(func(s *sight) {
			s.marker,
				s.promoted = "new", true
		}), m: memory{replica: "new"}, until: 1060, why: whyDemoted},
		{
			name: "another one was a replica", s: change(func(s *sight) { s.marker = "new" }),
			m: memory{runID: "old", admitted: true, replica: "between"},
		},
		{name: "waited long enough as a master", s: change(func(s *sight) {
			s.marker,
				s.promoted = "new",
				true
		}), m: memory{
			runID: "new", marker: "new", replica: "new", until: at(1000),
			why: "w",
		}, mark: true},
		{
			name: "a replica since it was admitted, unseen", s: change(func(s *sight) {
				s.marker,
					s.promoted, s.history = "new", true,
					"new.2"
			}), m: memory{runID: "new", admitted: true, last: "new.1", history: "new.1"},
			until: 1060, why: whyDemoted,
		},
		{
			name: "a replica since it was admitted, with another master meanwhile",
			s: change(func(s *sight) {
				s.marker, s.promoted, s.history = "new", true,
					"new.2"
			}),
			m:     memory{runID: "between", until: at(1001), last: "new.1", history: "between.1"},
			until: 1060, why: whyDemoted,
		},
		{
			name: "a replica that shows its history no more", s: change(func(s *sight) {
				s.marker,
					s.promoted = "new",
					true
			}), m: memory{runID: "new", admitted: true, last: "new.1", history: "new.1"},
			until: 1060, why: whyDemoted,
		},
		{name: "promoted before it was admitted", s: change(func(s *sight) {
			s.marker, s.promoted,
				s.history = "new", true,
				"new.1"
		}), m: memory{runID: "new", admitted: true, last: "new.1", history: "new.1"}},
		{
			name: "a new history of a master that lost its replicas",
			s:    change(func(s *sight) { s.marker, s.history = "new", "new.2" }),
			m:    memory{runID: "new", admitted: true, last: "new.1", history: "new.1"},
		},
		{name: "the history of another server", s: change(func(s *sight) {
			s.marker, s.promoted,
				s.history = "new", true,
				"new.2"
		}), m: memory{runID: "old", admitted: true, last: "old.1", history: "old.1"}},
		{
			name: "of unknown age", s: change(func(s *sight) { s.uptime = -1 }), m: knew,
			until: 1060,
			why:   whyRestarted,
		},
		{
			name: "waiting", s: unmarked, m: memory{runID: "new", until: at(1001), why: "w"},
			until: 1001, why: "w",
		},
		{name: "waited long enough", s: unmarked, m: memory{
			runID: "new", until: at(1000),
			why: "w",
		}, mark: true},
		{name: "restarted while waiting", s: unmarked, m: memory{
			runID: "old", seen: at(990),
			until: at(1001),
		}, until: 1056, why: whyRestarted},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.m.known = true
			v, m := assess(&test.s, test.m, time.Minute, at(1000))
			want := verdict{admitted: test.until == 0, mark: test.mark, whole: test.whole}
			if test.until > 0 {
				want.until, want.why = at(test.until), test.why
				require.Equal(t, want.until, m.until, "and stays so")
			}
			require.Equal(t, want, v)
			require.Equal(t, "new", m.runID)
			require.True(t, m.known, "of whatever server")
			m.known = false
			require.Equal(t, memory{
				runID: "new", last: test.s.history, history: test.s.history, marker: "new",
				admitted: true, known: true, seen: at(1000),
			}, m.settled())
			require.Equal(t, at(1000), m.seen)
		})
	}
}

// The goal: who saw a replica, and then that it had not its own marker as a master, admits it when
// another client has.
func TestAFormerReplicaIsAdmittedByAnothersMarker(t *testing.T) {
	s := sight{
		runID: "new", marker: "old", promoted: true, uptime: time.Hour, introduced: at(1000),
		asked: at(1000),
	}
	v, m := assess(&s, memory{replica: "new"}, time.Minute, at(1000))
	require.Equal(t, verdict{until: at(1060), why: whyDemoted}, v)
	s.marker = "new"
	v, _ = assess(&s, m, time.Minute, at(1001))
	require.True(t, v.admitted)

	s.marker, s.history = "old", "new.2" // the client did not see it as a replica
	v, m = assess(&s, memory{runID: "new", last: "new.1", history: "new.1"}, time.Minute, at(1000))
	require.Equal(t, verdict{until: at(1060), why: whyDemoted}, v)
	s.marker = "new"
	v, _ = assess(&s, m, time.Minute, at(1001))
	require.True(t, v.admitted)
}

// The goal: a server that comes back after another one took its place has to wait, if it was a
// replica since this client admitted it. Its own marker may be a copy.
func TestGuard_AMasterThatGetsItsRoleBackWaits(t *testing.T) {
	server := func(runID, history string, second float64) *sight {
		return &sight{
			runID: runID, marker: "a", history: runID + "." + history, promoted: second > 1000,
			uptime: time.Hour, introduced: at(second), asked: at(second),
		}
	}
	v, m := assess(server("a", "1", 1000), memory{}, time.Minute, at(1000))
	require.True(t, v.admitted)
	v, m = assess(server("b", "2", 1001), m.settled(), time.Minute, at(1001))
	require.Equal(t, verdict{until: at(1061), why: whyReplaced}, v)
	v, m = assess(server("a", "3", 1002), m, time.Minute, at(1002))
	require.Equal(t, verdict{until: at(1062), why: whyDemoted}, v)
	v, m = assess(server("a", "3", 1062), m, time.Minute, at(1062))
	require.Equal(t, verdict{admitted: true, mark: true}, v)
	v, _ = assess(server("a", "3", 1063), m.settled(), time.Minute, at(1063))
	require.Equal(t, verdict{admitted: true}, v)
}

// world is a node's history as only its servers know it: for each moment when locks were forgotten.
// It is the dumb version of the guard.
type world struct {
	now, forgot float64 // when locks were forgotten last; everything before is gone
	run         int
	started     float64
	marker      string
	durable     bool
	promoted    bool
	disk        generation
	known       map[string]int64 // the highest number of each id, as other nodes keep it
	saved       *world           // a copy of the disk
	replaced    bool             // in the last step, by a server that is older than that
	marked      float64          // when the marker was written, if it is a mark
	promotions  int              // each draws a new master_replid
}

// isMarked reports whether the marker is a mark.
func (w *world) isMarked() bool {
	_, ok := readMark(w.marker)
	return ok
}

// step is a second or less of the history, with an accident now and then.
func (w *world) step(r *rand.Rand) {
	w.now += r.Float64()
	w.replaced = false
	if m, ok := readMark(w.marker); ok && w.now > w.marked+m.lasts.Seconds() {
		w.marker = ""
	}
	switch r.IntN(160) {
	case 0: // it restarts empty
		w.begin(world{started: w.now, durable: r.IntN(3) == 0})
	case 1: // it restarts, from an old file where it is not durable
		if !w.durable {
			w.forgot = w.now
			if s := w.saved; s != nil && s.isMarked() {
				w.marker, w.marked = s.marker, s.marked
			}
		}
		w.run, w.started, w.promoted = w.run+1, w.now, false
	case 2:
		// It is flushed; where it was not admitted, it has no locks but those that it forgot
		// before.
		if w.marker == fmt.Sprint(w.run) || w.durable && w.former() {
			w.forgot = w.now
		}
		w.marker, w.disk = "", generation{}
	case 3: // a replica takes its place
		w.run, w.forgot, w.promoted, w.started, w.durable = w.run+1, w.now, true,
			w.now-20*r.Float64(), false
		w.promotions++
	case 4: // an empty server that had waited beside it takes its place
		w.begin(world{started: w.now - 20*r.Float64(), replaced: true})
	case 5, 6: // its disk is copied
		saved := *w
		w.saved = &saved
	case 7, 8: // it restarts with the copy, if that is old enough to be noticed
		if s := w.saved; s != nil && w.durable && s.durable && s.disk.number < w.known[s.disk.id] {
			w.begin(world{
				started: w.now, durable: true, marker: s.marker, marked: s.marked,
				disk: s.disk,
			})
		}
	case 9, 10, 11, 12:
		// It becomes a replica of its own former replica, which has an older mark, and is promoted
		// again.
		if s := w.saved; s != nil && s.run == w.run && s.isMarked() {
			w.marker, w.marked, w.disk = s.marker, s.marked, s.disk
			w.forgot, w.promoted = w.now, true
			w.promotions++
		}
	}
}

// former reports whether a server was admitted here before this one.
func (w *world) former() bool { s := w.sight(); return s.run() != "" }

// begin is the start of another server, which has none of the locks.
func (w *world) begin(server world) {
	server.now, server.forgot, server.run = w.now, w.now, w.run+1
	server.promotions, server.known, server.saved = w.promotions, w.known, w.saved
	*w = server
}

// admitted is what follows when a client was admitted: a new generation begins, or the number
// rises.
func (w *world) admitted(v verdict) {
	if v.mark && !v.whole {
		w.known[w.disk.id] = endedGeneration
		w.disk = generation{}
		if w.durable {
			w.disk = generation{fmt.Sprint("id", w.now), 0}
		}
	}
	if w.disk.id != "" {
		w.disk.number++
		w.known[w.disk.id] = w.disk.number
	}
}

func (w *world) sight() sight {
	forgot := w.disk.id != "" && w.known[w.disk.id] > w.disk.number
	left := time.Duration(0)
	if m, ok := readMark(w.marker); ok {
		left = m.lasts - time.Duration((w.now-w.marked)*float64(time.Second))
	}
	return sight{
		history: fmt.Sprintf("%d.%d", w.run, w.promotions), left: left, read: at(w.now),
		own: w.disk, forgot: forgot, vouched: w.disk.id != "" && !forgot,
		runID: fmt.Sprint(w.run), uptime: time.Duration(int(w.now)-int(w.started)) * time.Second,
		marker: w.marker, durable: w.durable, promoted: w.promoted, introduced: at(w.now),
		asked: at(w.now),
	}
}

// look is what a client does that looks at the node: see admission.decide, without the first use.
func (w *world) look(m memory, longest time.Duration) (verdict, memory) {
	s := w.sight()
	v, after := assess(&s, m, longest, at(w.now))
	if mark, needed := s.mark(longest, m.known); !v.admitted && needed {
		w.marker, w.marked = mark.text(), w.now
		if mark.former == "" {
			w.disk = generation{}
		}
		s = w.sight()
		v, after = assess(&s, m, longest, at(w.now))
	}
	if v.mark {
		w.marker = fmt.Sprint(w.run)
	}
	if v.admitted {
		after = after.settled()
		w.admitted(v)
	}
	return v, after
}

// The goal: whatever happens to a node, several clients that come and go admit it only when the
// longest TTL has passed since it forgot anything; and they do admit it in the end. The dumb
// version knows when that was. A client that was admitted is connected and looks at once; the
// others look now and then.
//
// What no client can know is left out: when another server took the node's place while the client
// was away; and that a durable server was a replica before its last restart.
func TestTheGuardAdmitsOnlyWhatHasForgottenNothing(t *testing.T) {
	const longest, maxTTL = 10.5, 10500 * time.Millisecond
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := world{
			now: 100, run: 1, started: 50, forgot: 50, marker: "1",
			known: map[string]int64{},
		}
		clients := make([]memory, 3)
		lives := []int{3, 10, 100}[r.IntN(3)]
		admitted := 0
		for range 2000 {
			w.step(r)
			if r.IntN(lives) == 0 {
				clients[r.IntN(len(clients))] = memory{} // a new one
			}
			for i, m := range clients {
				connected := m.admitted && m.until.IsZero()
				if connected || w.replaced {
					m.seen = at(w.now) // until the step
				} else if r.IntN(4) > 0 {
					continue
				}
				v, after := w.look(m, maxTTL)
				clients[i] = after
				if !v.admitted {
					if !v.until.After(at(w.now)) || v.until.After(at(w.now+longest)) {
						require.Fail(t, "waits for ever, or for nothing",
							"seed %d: until %v s from now", seed, v.until.Sub(at(w.now)))
					}
					continue
				}
				admitted++
				if w.now < w.forgot+longest {
					require.Fail(t, "admitted too early", "seed %d: %v s after it forgot", seed,
						w.now-w.forgot)
				}
			}
		}
		require.Greater(t, admitted, 500)
	}
}

package restartguard

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// shown is what the guard sees of a server that answers each question with this text, one that is
// not in it with an error, and CONFIG by words.
func shown(t *testing.T, answers map[string]string) serverInfo {
	t.Helper()
	s := unknownServer()
	for _, q := range s.steps("marker") {
		text, known := answers[strings.Join(q.Command[:2], " ")]
		r := resp.Value{Kind: '$', Text: text}
		switch {
		case !known:
			r = resp.Value{Kind: '-', Text: "ERR unknown command"}
		case q.Command[0] == "CONFIG":
			r = resp.Value{Kind: '*'}
			for word := range strings.FieldsSeq(text) {
				r.Items = append(r.Items, resp.Value{Kind: '$', Text: word})
			}
		}
		if err := q.OnReply(r); known {
			require.NoError(t, err)
		}
	}
	s.markerReadAt = time.Time{}
	return s
}

// The goal: what a server shows is taken for good only where it says all of what that needs: that
// it answers no write before it is on the disk, and has done so since its start; that it was no
// replica since then; and how old it is. What is missing counts against it.
func TestServerInfo_WhatIsMissingCountsAgainstAServer(t *testing.T) {
	best := map[string]string{
		"INFO server":      "# Server\r\nrun_id:r\r\nuptime_in_seconds:5\r\n",
		"INFO persistence": "aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n",
		"INFO replication": "role:master\r\nmaster_replid:i\r\nmaster_replid2:0000000000000000000000000000000000000000\r\n",
		"CONFIG GET":       "appendfsync always no-appendfsync-on-rewrite no",
		"GET marker":       "r",
		"PTTL marker":      "4000",
	}
	good := serverInfo{
		runID: "r", memoryID: "r.i", expiresIn: 4 * time.Second, uptime: 5 * time.Second,
		durable: true, marker: "r",
	}
	require.Equal(t, good, shown(t, best))

	volatile := func(s *serverInfo) { s.durable = false }
	rewritten := func(s *serverInfo) { s.aofRewritten = true }
	promoted := func(s *serverInfo) { s.maybePromoted = true }
	replica := func(s *serverInfo) { s.replica, s.maybePromoted = true, true }
	ageless := func(s *serverInfo) { s.uptime = -1 }
	for _, test := range []struct {
		where, text, instead string
		want                 func(*serverInfo)
	}{
		{"INFO persistence", "aof_enabled:1", "aof_enabled:0", volatile},
		{"INFO persistence", "aof_enabled:1", "", volatile},
		{"INFO persistence", "sec:-1", "sec:0", rewritten},
		{"INFO persistence", "aof_last_rewrite_time_sec:-1", "", rewritten},
		{"INFO persistence", "in_progress:0", "in_progress:1", rewritten},
		{"INFO persistence", "aof_rewrite_in_progress:0", "", rewritten},
		{"INFO persistence", "scheduled:0", "scheduled:1", rewritten},
		{"INFO persistence", "aof_rewrite_scheduled:0", "", rewritten},
		{"CONFIG GET", "always", "everysec", volatile},
		{"CONFIG GET", "rewrite no", "rewrite yes", volatile},
		{"CONFIG GET", "appendfsync always ", "", volatile},
		{"CONFIG GET", "no-appendfsync-on-rewrite no", "", volatile},
		{"INFO replication", "role:master", "role:slave", replica},
		{"INFO replication", "role:master", "role:replica", replica},
		{"INFO replication", "role:master", "role:sentinel", promoted},
		{"INFO replication", "role:master", "", promoted},
		{"INFO replication", "replid2:0", "replid2:8", promoted},
		{"INFO replication", "master_replid2", "another", func(s *serverInfo) {
			s.maybePromoted,
				s.memoryID = true, ""
		}},
		{"INFO replication", "master_replid:i", "", func(s *serverInfo) { s.memoryID = "" }},
		{
			"INFO replication", "master_replid:i", "master_replid:j",
			func(s *serverInfo) { s.memoryID = "r.j" },
		},
		{
			"INFO replication", "master_replid:i", "master_replid:i:j",
			func(s *serverInfo) { s.memoryID = "" },
		},
		{"INFO server", "seconds:5", "seconds:-5", ageless},
		{"INFO server", "seconds:5", "seconds:?", ageless},
		{"INFO server", "uptime_in_seconds:5", "", ageless},
	} {
		answers, want := maps.Clone(best), good
		answers[test.where] = strings.Replace(best[test.where], test.text, test.instead, 1)
		require.NotEqual(t, best, answers)
		test.want(&want)
		require.Equal(t, want, shown(t, answers), "%q instead of %q", test.instead, test.text)
	}
	for where, want := range map[string]func(*serverInfo){
		"INFO persistence": func(s *serverInfo) { s.durable, s.aofRewritten = false, true },
		"CONFIG GET":       volatile,
		"INFO replication": func(s *serverInfo) { s.maybePromoted, s.memoryID = true, "" },
		"PTTL marker":      func(s *serverInfo) { s.expiresIn = 0 },
	} {
		answers, expected := maps.Clone(best), good
		delete(answers, where)
		want(&expected)
		require.Equal(t, expected, shown(t, answers), "no %s", where)
	}

	nameless := shown(t, map[string]string{"INFO server": "uptime_in_seconds:5", "GET marker": "r"})
	require.Empty(t, nameless.runID)
	require.ErrorContains(t, nameless.infoErr, "no run_id")
}

// The goal: no text of INFO or CONFIG panics, and a run_id is only found where it stands at the
// beginning of a line.
func FuzzServerInfo(f *testing.F) {
	f.Add("# Server\r\nrun_id:abc\r\nuptime_in_seconds:5\r\n")
	f.Add("run_id:\r\n\r\n:::\nrun_id")
	f.Add("uptime_in_seconds:-1\r\nrun_id:x:y")
	f.Fuzz(func(t *testing.T, text string) {
		var s serverInfo
		require.NoError(t, s.readServer(resp.Value{Kind: '$', Text: text}))
		if s.runID != "" {
			require.Contains(t, "\n"+text, "\nrun_id:"+s.runID)
		} else {
			require.Error(t, s.infoErr)
		}
		require.GreaterOrEqual(t, s.uptime, 0*s.uptime)
		s.durable = true
		config := []resp.Value{{Text: text}, {Text: "always"}}
		require.NoError(t, s.readSync(resp.Value{Kind: '*', Items: config}))
		require.False(t, s.durable)
	})
}

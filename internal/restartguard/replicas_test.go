package restartguard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: what is known of a former master counts together with a loss record. A record of the
// server's own memory shortens the wait, but not below that since the former master was there.
func TestReplicated_ALossRecordCountsSinceTheFormerMaster(t *testing.T) {
	recorded := func(s *serverInfo) {
		s.marker, s.expiresIn = lossRecord{lossPrefix, time.Hour, s.memoryID, ""}.text(),
			time.Hour-20*time.Second
	}
	shows := func(marker string) func(s *serverInfo) {
		return func(s *serverInfo) { s.marker = marker }
	}
	unseen := func(s *serverInfo) { s.marker, s.maybePromoted = "new", true }
	durable := func(s *serverInfo) { s.marker, s.durable, s.vouched = "old", true, true }
	demoted := func(s *serverInfo) { recorded(s); s.memoryID = "new.2" }
	knew := nodeHistory{runID: "old", lastSeen: at(990)}
	admitted := func(memoryID string) nodeHistory {
		return nodeHistory{runID: "new", admittedMemoryID: memoryID}
	}
	for name, test := range map[string]struct {
		show   func(s *serverInfo)
		before nodeHistory
		until  float64 // 0: admitted
	}{
		"new client":                 {recorded, nodeHistory{}, 1041},
		"the former left before":     {recorded, nodeHistory{runID: "old", lastSeen: at(970)}, 1041},
		"the former left after":      {recorded, knew, 1050},
		"recorded before a demotion": {demoted, knew, 1060},
		"promoted":                   {unseen, knew, 1060},
		"durable":                    {durable, knew, 1060},
		"its own marker":             {shows("new"), knew, 1060},
		"a replica, unseen":          {unseen, admitted("new.0"), 1060},
		"its first replica came":     {shows("new"), admitted("new.0"), 0},
		"restarted":                  {shows("old"), knew, 1060},
		"a reconnect":                {shows("new"), admitted("new.1"), 0},
		"admitted, new client":       {shows("new"), nodeHistory{}, 0},
		"admitted while it waits": {
			shows("new"), nodeHistory{runID: "new", marker: "old", until: at(1030)}, 0,
		},
	} {
		s := serverInfo{runID: "new", memoryID: "new.1", uptime: 5 * time.Second}
		s.uptimeAskedAt, s.markerAskedAt, s.markerReadAt = at(1000), at(1000), at(1000)
		test.show(&s)
		g := &Guard{config: Config{Replicated: true}, history: test.before}
		g.suspectReplicas(&s)
		d, _ := decide(&s, g.history, time.Minute, at(1000))
		require.Equal(t, test.until == 0, d.admit, name)
		if !d.admit {
			require.Equal(t, at(test.until), d.until, name)
		}
	}
}

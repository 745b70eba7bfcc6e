package restartguard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// recording looks at a server without a marker, by a client that knew the node. The server replies
// set to the script after a second, and found makes its marker of that script's words. recording
// returns when the look began, and what is decided.
func recording(t *testing.T, before nodeHistory, set string, found func(words []string) string) (
	g *Guard, began time.Time, d decision,
) {
	t.Helper()
	server := newFakeServer("new")
	server.instead = func(command []string) string {
		if command[0] != "EVALSHA" {
			return ""
		}
		time.Sleep(time.Second)
		server.mu.Lock()
		defer server.mu.Unlock()
		server.marker, server.expiresIn = found(command), 11*time.Minute
		return set + "\r\n"
	}
	g = NewPeers([]string{"n"}, nil, nil).Guard(Config{
		Marker: "marker", Generations: "generations", MaxTTL: time.Minute, Strict: true,
	})
	g.history = before
	began = time.Now()
	s := &serverInfo{
		runID: "new", memoryID: "new.1", uptime: time.Hour, uptimeAskedAt: began,
		markerAskedAt: began,
	}
	d, err := g.decideWithPeers(t.Context(), resp.NewConn(server.dial(t)), s)
	require.NoError(t, err)
	return g, began, d
}

// The goal: a wait begins behind the record that a loss leaves on the server. If the record could
// not be written at first, the wait begins when it is written, or when another client's is found:
// the server may have been admitted and wiped in between.
func TestLossRecord_AWaitBeginsBehindIt(t *testing.T) {
	own := func(words []string) string { return words[6] }
	none := func([]string) string { return "" }
	others := func([]string) string {
		return lossRecord{lossPrefix, 11 * time.Minute, "new.1", ""}.text()
	}
	unknown := func([]string) string { return lossPrefix + "another's" }
	synctest.Test(t, func(t *testing.T) {
		knew := nodeHistory{runID: "old", admitted: true, everAdmitted: true}
		for _, found := range []func([]string) string{own, none, others, unknown} {
			g, began, d := recording(t, knew, "+OK", found)
			require.Equal(t, began.Add(time.Second+time.Minute), d.until, "behind the record")
			if g.history.marker != "" {
				require.Equal(t, d.until, g.history.until)
			}
		}

		g, began, d := recording(t, knew, "-OOM command not allowed", none)
		require.Equal(t, began.Add(time.Second+time.Minute), d.until)
		unrecorded := g.history
		for _, found := range []func([]string) string{own, others} {
			time.Sleep(time.Hour)
			g, began, d = recording(t, unrecorded, "+OK", found)
			require.Equal(t, began.Add(time.Second+time.Minute), d.until,
				"nothing showed what happened")
			require.Contains(t, g.history.marker, lossPrefix)
		}
	})
}

// The goal: a record takes nobody's place, tells a wipe from a start that lost all, and is another
// one each time. It expires, so that it does not count for a server that left its node long ago.
func TestLossRecord_SaysWhatWasLost(t *testing.T) {
	const restarted = " 2 marker generations  lost:660000:new.1:[A-Z2-7]{26}: 660000 $"
	const wiped = " 2 marker generations  lost:flushed:660000:new.1:[A-Z2-7]{26}: 660000 $"
	synctest.Test(t, func(t *testing.T) {
		for before, want := range map[nodeHistory]string{
			{runID: "old", admitted: true, everAdmitted: true}:                    restarted,
			{runID: "new", memoryID: "new.1", admitted: true, everAdmitted: true}: wiped,
		} {
			said := map[string]bool{}
			for range 2 {
				recording(t, before, "+OK", func(words []string) string {
					said[strings.Join(words, " ")] = true
					return words[6]
				})
			}
			require.Len(t, said, 2)
			for text := range said {
				require.Regexp(t, want, text)
			}
		}
	})
}

// The goal: a client writes a record if it finds none of this server's memory, and otherwise leaves
// what it finds. What a record says of the run before, and of the first use, the next one says too.
func TestLossRecord_IsWrittenOnce(t *testing.T) {
	text := func(prefix, memoryID, formerRun string) string {
		return lossRecord{prefix, time.Hour, memoryID, formerRun}.text()
	}
	wants := func(prefix, formerRun string) *lossRecord {
		return &lossRecord{prefix: prefix, formerRun: formerRun}
	}
	lost := text(lossPrefix, "new.1", "old")
	elsewhere := text(lossPrefix, "new.0", "old")
	maybeNew := text(newPrefix, "new.1", "")
	for name, test := range map[string]struct {
		marker     string
		noFirstUse bool
		outdated   bool
		nameless   bool // the server does not show its memory ID
		expiresIn  time.Duration
		promoted   bool
		want       *lossRecord
	}{
		"no marker":               {want: wants(newPrefix, "")},
		"no marker, no first use": {noFirstUse: true, want: wants(lossPrefix, "")},
		"no marker, no memory ID": {nameless: true, want: wants(newPrefix, "")},

		"another run's":             {marker: "old", want: wants(lossPrefix, "old")},
		"its own: it was a replica": {marker: "new"},
		"another run's, and it has lost memory": {
			marker: "old", outdated: true, want: wants(lossPrefix, ""),
		},
		"its own, and it has lost memory": {
			marker: "new", outdated: true, want: wants(lossPrefix, ""),
		},
		"another run's, promoted": {marker: "old", promoted: true, want: wants(lossPrefix, "")},
		"another run's, perhaps promoted": {
			marker: "old", promoted: true, nameless: true, want: wants(lossPrefix, "old"),
		},

		"recorded": {marker: lost, noFirstUse: true},
		"recorded, and it has lost memory": {
			marker: lost, outdated: true, want: wants(lossPrefix, ""),
		},
		"recorded for what it has lost": {
			marker: text(lossPrefix, "new.1", ""), noFirstUse: true, outdated: true,
		},
		"recorded and put back": {
			marker: text(wipedPrefix, "new.0", "old"), outdated: true,
			want: wants(wipedPrefix, ""),
		},
		"recorded as new":               {marker: maybeNew},
		"recorded as new, no first use": {marker: maybeNew, noFirstUse: true, want: wants(lossPrefix, "")},
		"recorded as new, with another memory": {
			marker: text(newPrefix, "new.0", ""), want: wants(newPrefix, ""),
		},
		"recorded with another memory": {marker: elsewhere, want: wants(lossPrefix, "old")},
		"recorded as wiped, with another memory": {
			marker: text(wipedPrefix, "new.0", ""), want: wants(wipedPrefix, ""),
		},
		"recorded with another memory, unseen": {marker: elsewhere, nameless: true},
		"recorded on another one, promoted": {
			marker: text(wipedPrefix, "old.0", "older"), promoted: true,
			want: wants(wipedPrefix, ""),
		},
		"recorded too long ago": {
			marker: lost, expiresIn: formerRunKept - 1, want: wants(lossPrefix, "old"),
		},
		"recorded long ago": {marker: lost, expiresIn: formerRunKept},
		"recorded long ago, in nobody's place": {
			marker: text(lossPrefix, "new.1", ""), expiresIn: 1,
		},
		"by hand": {marker: lossPrefix + "x", want: wants(lossPrefix, "")},
	} {
		t.Run(name, func(t *testing.T) {
			s := &serverInfo{
				runID: "new", memoryID: "new.1", marker: test.marker, expiresIn: test.expiresIn,
				outdated: test.outdated, maybePromoted: test.promoted,
			}
			if test.nameless {
				s.memoryID = ""
			}
			r, needed := s.nextRecord(time.Minute, test.noFirstUse)
			require.Equal(t, test.want != nil, needed)
			if !needed {
				return
			}
			test.want.lasts, test.want.memoryID = 11*time.Minute, s.memoryID
			if test.want.formerRun != "" {
				test.want.lasts += formerRunKept
			}
			require.Equal(t, *test.want, r)
			parsed, ok := parseLossRecord(r.text())
			require.True(t, ok)
			require.Equal(t, r, parsed)
			s.marker, s.expiresIn = r.text(), r.lasts
			_, again := s.nextRecord(time.Minute, test.noFirstUse)
			require.False(t, again)
		})
	}
}

// The goal: what is no record of this form has no age and names no run.
func TestLossRecord_OfAnotherFormSaysNothing(t *testing.T) {
	for _, text := range []string{"", "0123", "older:1:a:b:c"} {
		_, ok := parseLossRecord(text)
		require.False(t, ok, text)
	}
	for _, text := range []string{
		"lost:", "lost:1", "lost:1:a:b", "lost:1:a:b:c:d",
		"lost:-1:a:b:c", "lost:0:a:b:c", "lost:x:a:b:c", "lost:9999999999999:a:b:c",
	} {
		r, ok := parseLossRecord(text)
		require.True(t, ok, text)
		require.Equal(t, lossRecord{prefix: lossPrefix}, r, text)
	}
}

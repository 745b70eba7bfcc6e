package multiplex

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// marking has a look at a server whose marker is gone, by a client that knew it. The server answers
// after a second. It answers set to the script, and found makes its marker of that script's words.
// marking returns when the look began, and what is decided.
func marking(t *testing.T, before memory, set string,
	found func(set []string) string,
) (a *admission, began time.Time, v verdict) {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	go func() {
		defer func() { _ = server.Close() }()
		r := resptest.NewReader(server)
		words, err := resptest.ReadCommand(r)
		if err != nil {
			return
		}
		_, _ = r.Read() // GET
		_, _ = r.Read() // PTTL
		time.Sleep(time.Second)
		text := found(words)
		got := "$-1\r\n"
		if text != "" {
			got = resptest.Bulk(text)
		}
		_, _ = server.Write([]byte(set + "\r\n" + got + ":660000\r\n"))
	}()
	a = &admission{
		maxTTL: time.Minute, marker: "marker", generations: "generations",
		known: newGenerations(1), memory: before, mode: GuardStrict,
	}
	began = time.Now()
	s := &sight{runID: "new", history: "new.1", uptime: time.Hour, introduced: began, asked: began}
	v, err := a.decide(t.Context(), newHandshake(client), s)
	require.NoError(t, err)
	return a, began, v
}

// The goal: a wait begins behind the mark that a loss leaves on the server. If the mark could not
// be left at first, the wait begins when it is left, or when another client's is found: the server
// may have been admitted and flushed in between.
func TestMark_AWaitBeginsBehindIt(t *testing.T) {
	own := func(set []string) string { return set[6] }
	none := func([]string) string { return "" }
	others := func([]string) string {
		return mark{
			lostPrefix, 11 * time.Minute, "new.1",
			"",
		}.text()
	}
	unknown := func([]string) string { return lostPrefix + "another's" }
	synctest.Test(t, func(t *testing.T) {
		known := memory{runID: "old", admitted: true, known: true}
		for _, found := range []func([]string) string{own, none, others, unknown} {
			a, began, v := marking(t, known, "+OK", found)
			require.Equal(t, began.Add(time.Second+time.Minute), v.until, "behind the mark")
			if a.memory.marker != "" {
				require.Equal(t, v.until, a.memory.until)
			}
		}

		a, began, v := marking(t, known, "-OOM command not allowed", none)
		require.Equal(t, began.Add(time.Second+time.Minute), v.until)
		unmarked := a.memory
		for _, found := range []func([]string) string{own, others} {
			time.Sleep(time.Hour)
			a, began, v = marking(t, unmarked, "+OK", found)
			require.Equal(t, began.Add(time.Second+time.Minute), v.until,
				"nothing showed what happened")
			require.Contains(t, a.memory.marker, lostPrefix)
		}
	})
}

// The goal: a mark takes nobody's place, tells a flush from a start that lost all, and is another
// one each time. It expires, so that it does not count for a server that left its node long ago.
func TestMark_SaysWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for before, want := range map[memory]string{
			{
				runID: "old", admitted: true,
				known: true,
			}: " 2 marker generations  lost:660000:new.1:[A-Z2-7]{26}: 660000 $",
			{
				runID: "new", history: "new.1", admitted: true,
				known: true,
			}: " 2 marker generations  " +
				"lost:flushed:660000:new.1:[A-Z2-7]{26}: 660000 $",
		} {
			said := map[string]bool{}
			for range 2 {
				marking(t, before, "+OK", func(set []string) string {
					said[strings.Join(set, " ")] = true
					return set[6]
				})
			}
			require.Len(t, said, 2)
			for text := range said {
				require.Regexp(t, want, text)
			}
		}
	})
}

// The goal: a client leaves a mark where it finds none of this server's memory, and otherwise
// leaves what it finds. What a mark says of the run before, and of the first use, the next one says
// as well.
func TestMark_IsLeftOnce(t *testing.T) {
	text := func(prefix, history, former string) string {
		return mark{
			prefix, time.Hour, history,
			former,
		}.text()
	}
	for name, test := range map[string]struct {
		marker string
		known  bool // that this is not the first use
		forgot bool
		bare   bool // the server does not show its history
		left   time.Duration

		promoted bool
		want     *mark
	}{
		"no marker":               {want: &mark{prefix: newPrefix}},
		"no marker, no first use": {known: true, want: &mark{prefix: lostPrefix}},
		"another run's": {marker: "old", want: &mark{
			prefix: lostPrefix,
			former: "old",
		}},
		"its own: it was a replica": {marker: "new"},
		"another run's, and it has forgotten": {
			marker: "old", forgot: true,
			want: &mark{prefix: lostPrefix},
		},
		"its own, and it has forgotten": {
			marker: "new", forgot: true,
			want: &mark{prefix: lostPrefix},
		},
		"marked": {
			marker: text(lostPrefix, "new.1", "old"),
			known:  true,
		},
		"marked, and it has forgotten": {
			marker: text(lostPrefix, "new.1", "old"),
			forgot: true, want: &mark{prefix: lostPrefix},
		},
		"marked for what it has forgotten": {
			marker: text(lostPrefix, "new.1", ""),
			known:  true, forgot: true,
		},
		"marked and put back": {
			marker: text(flushedPrefix, "new.0", "old"),
			forgot: true, want: &mark{prefix: flushedPrefix},
		},
		"marked as new": {marker: text(newPrefix, "new.1", "")},
		"marked as new, no first use": {
			marker: text(newPrefix, "new.1", ""),
			known:  true, want: &mark{prefix: lostPrefix},
		},
		"marked as new, with another memory": {
			marker: text(newPrefix, "new.0", ""),
			want:   &mark{prefix: newPrefix},
		},
		"marked with another memory": {
			marker: text(lostPrefix, "new.0", "old"),
			want:   &mark{prefix: lostPrefix, former: "old"},
		},
		"marked as flushed, with another memory": {
			marker: text(flushedPrefix, "new.0", ""),
			want:   &mark{prefix: flushedPrefix},
		},
		"marked with another memory, unseen": {
			marker: text(lostPrefix, "new.0", "old"),
			bare:   true,
		},
		"marked too long ago": {
			marker: text(lostPrefix, "new.1", "old"),
			left:   formerKept - 1, want: &mark{prefix: lostPrefix, former: "old"},
		},
		"marked long ago": {
			marker: text(lostPrefix, "new.1", "old"),
			left:   formerKept,
		},
		"marked long ago, in nobody's place": {marker: text(lostPrefix, "new.1", ""), left: 1},
		"another run's, promoted": {
			marker: "old", promoted: true,
			want: &mark{prefix: lostPrefix},
		},
		"marked on another one, promoted": {
			marker:   text(flushedPrefix, "old.0", "older"),
			promoted: true, want: &mark{prefix: flushedPrefix},
		},
		"another run's, perhaps promoted": {
			marker: "old", promoted: true, bare: true,
			want: &mark{prefix: lostPrefix, former: "old"},
		},
		"by hand": {
			marker: lostPrefix + "x",
			want:   &mark{prefix: lostPrefix},
		},
		"no marker, and no history": {bare: true, want: &mark{prefix: newPrefix}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sight{
				runID: "new", history: "new.1", marker: test.marker, left: test.left,
				forgot: test.forgot, promoted: test.promoted,
			}
			if test.bare {
				s.history = ""
			}
			m, needed := s.mark(time.Minute, test.known)
			require.Equal(t, test.want != nil, needed)
			if needed {
				test.want.lasts, test.want.history = 11*time.Minute, s.history
				if test.want.former != "" {
					test.want.lasts += formerKept
				}
				require.Equal(t, *test.want, m)
				read, ok := readMark(m.text())
				require.True(t, ok)
				require.Equal(t, m, read)
				s.marker, s.left = m.text(), m.lasts
				_, again := s.mark(time.Minute, test.known)
				require.False(t, again)
			}
		})
	}
}

// The goal: what is no mark of this form has no age and names no run.
func TestMark_OfAnotherFormSaysNothing(t *testing.T) {
	for _, text := range []string{"", "0123", "older:1:a:b:c"} {
		_, ok := readMark(text)
		require.False(t, ok, text)
	}
	for _, text := range []string{
		"lost:", "lost:1", "lost:1:a:b", "lost:1:a:b:c:d",
		"lost:-1:a:b:c", "lost:0:a:b:c", "lost:x:a:b:c", "lost:9999999999999:a:b:c",
	} {
		m, ok := readMark(text)
		require.True(t, ok, text)
		require.Equal(t, mark{prefix: lostPrefix}, m, text)
	}
}

// The goal: clients that live for much less than MaxTTL, one after another, get a master back that
// has forgotten locks, and not before MaxTTL has passed. The wait continues also if the master has
// the marker of its former run.
func TestMark_ClientsThatLiveShortShareTheWait(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	for name, former := range map[string]string{
		"empty":                             "",
		"with the marker of the run before": strings.Repeat("f", 40),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := lockpipetest.StartRealT(t, 3)
			m := start(t, nodes.URLs(), waits(maxTTL))
			up(t, m)
			require.NoError(t, m.Close(t.Context()))
			for _, i := range []int{1, 2} {
				require.NoError(t, nodes.Restart(i))
				if former != "" {
					ask(t, nodes, i, "SET", markerKey, former)
				}
			}
			began, lives := time.Now(), 0
			for back := false; !back; lives++ {
				require.Less(t, time.Since(began), patient)
				m := start(t, nodes.URLs(), waits(maxTTL))
				becomes(t, m, 0, NodeUp, "")
				for _, i := range []int{1, 2} {
					met := func() bool { return m.Nodes()[i].State != NodeConnecting }
					require.Eventually(t, met, patient, time.Millisecond)
				}
				back = m.Reachable()
				require.NoError(t, m.Close(t.Context()))
			}
			require.GreaterOrEqual(t, time.Since(began), maxTTL, "a master voted too early")
			require.Greater(t, lives, 1, "none of them lives for MaxTTL")
		})
	}
}

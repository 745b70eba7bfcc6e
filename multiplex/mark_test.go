package multiplex

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// marking has a look at a server whose marker is gone, by one who knew it; the server answers after a second, what it answers to SET is set, and its
// marker is what found makes of that SET. It returns when the look began, and what is decided.
func marking(t *testing.T, before memory, set string, found func(set []string) string) (a *admission, began time.Time, v verdict) {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	go func() {
		defer func() { _ = server.Close() }()
		r := newReplyReader(server)
		command, err := readReply(r)
		if err != nil {
			return
		}
		_, _ = readReply(r) // GET
		time.Sleep(time.Second)
		words := make([]string, len(command.items))
		for i := range words {
			words[i] = command.items[i].text
		}
		text := found(words)
		got := "$-1\r\n"
		if text != "" {
			got = string(appendCommand(nil, []string{text})[len("*1\r\n"):])
		}
		_, _ = server.Write([]byte(set + "\r\n" + got))
	}()
	a = &admission{maxTTL: time.Minute, marker: "marker", generations: "generations", known: newGenerations(1), memory: before, mode: GuardStrict}
	began = time.Now()
	v, err := a.decide(t.Context(), newHandshake(client), &sight{runID: "new", uptime: time.Hour, introduced: began, asked: began})
	require.NoError(t, err)
	return a, began, v
}

// The goal: a wait begins behind the mark that a loss leaves on the server. One that began before, because the mark could not be left, goes on when it is
// left later; but not where another's is found then: the server may have been admitted and flushed in between.
func TestAMarkThatCouldNotBeLeft(t *testing.T) {
	own := func(set []string) string { return set[6] }
	none := func([]string) string { return "" }
	others := func([]string) string { return lostPrefix + "another's" }
	synctest.Test(t, func(t *testing.T) {
		known := memory{runID: "old", admitted: true, known: true}
		for _, found := range []func([]string) string{own, none, others} {
			a, began, v := marking(t, known, "+OK", found)
			require.Equal(t, began.Add(time.Second+time.Minute), v.until, "behind the mark")
			require.Equal(t, v.until, a.memory.until)
		}

		a, began, v := marking(t, known, "-OOM command not allowed", none)
		require.Equal(t, began.Add(time.Second+time.Minute), v.until)
		waiting := a.memory
		a, _, v = marking(t, waiting, "+OK", own)
		require.Equal(t, waiting.until, v.until, "it goes on")
		require.Contains(t, a.memory.marker, lostPrefix)
		_, began, v = marking(t, waiting, "$-1", others)
		require.Equal(t, began.Add(time.Second+time.Minute), v.until, "it begins anew")
	})
}

// The goal: a mark takes nobody's place, tells a flush from a start that lost all, is another one each time, and ends by itself when all that was
// lost has ended long since.
func TestWhatAMarkSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for before, want := range map[memory]string{
			{runID: "old", admitted: true, known: true}: " 2 marker generations  lost:[A-Z2-7]{26} 120000 $",
			{runID: "new", admitted: true, known: true}: " 2 marker generations  lost:flushed:[A-Z2-7]{26} 120000 $",
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

package guard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	own      = "aa" // the memory's name, and the run_id
	second   = time.Second
	forLocks = 10 * second // W
)

// waited returns how much a record has left that is so old, the second that is taken off included.
func waited(d time.Duration) time.Duration { return recordLasts - d - second }

func text(kind, memory string, wait time.Duration) string {
	return record{kind, wait, memory, "n"}.text()
}

// The goal: each sight has one consequence.
func TestDecide_Table(t *testing.T) {
	lost, fresh := text(isLost, own, forLocks), text(isNew, own, forLocks)
	for name, tc := range map[string]struct {
		text   string
		left   time.Duration
		change func(*known)
		want   decision
	}{
		"its own name":                 {text: own, left: -1, want: decision{action: vote}},
		"its name of before it forgot": {text: own + ".x", left: -1, want: decision{action: vote}},
		"no key":                       {want: begins(isNew)},
		"no key, and it had one":       {change: knowsLoss, want: begins(isLost)},
		"another memory's name":        {text: "bb", left: -1, want: begins(isLost)},
		"a longer name":                {text: own + "b", left: -1, want: begins(isLost)},
		"anything":                     {text: "hello world", left: -1, want: begins(isLost)},
		"an old form": {
			text: "lost:1000:aa:x:y", left: second, want: begins(isLost),
		},
		"another memory's record": {
			text: text(isLost, "bb", second), left: second, want: begins(isLost),
		},
		"another memory's new record": {
			text: text(isNew, "bb", second), left: second, want: begins(isLost),
		},
		"a record that lasts for ever": {text: lost, left: -1, want: begins(isLost)},
		"a record from the future": {
			text: lost, left: recordLasts + 2*second, want: begins(isLost),
		},
		"a record that just ends": {text: lost, left: 0, want: begins(isLost)},
		"a record, young": {
			text: lost, left: waited(3 * second), want: decision{left: 7 * second},
		},
		"a record, over":     {text: lost, left: waited(forLocks), want: admits10},
		"a new record, over": {text: fresh, left: waited(forLocks), want: admits10},
		"a record, nearly over": {
			text: lost, left: waited(forLocks) + 1, want: decision{left: 1},
		},
		"over by the server's clock": {
			text: lost, left: waited(forLocks), change: sawIt(second),
			want: decision{left: 9 * second},
		},
		"over, and nobody was heard": {
			text: lost, left: waited(forLocks), change: deaf, want: decision{},
		},
		"a longer W": {
			text: lost, left: waited(forLocks), change: longer, want: changes(isLost, 20*second),
		},
		"a shorter W": {
			text: lost, left: waited(9 * second), change: shorter, want: decision{left: second},
		},
		"new, and the client knows": {
			text: fresh, left: waited(0), change: knowsLoss, want: changes(isLost, forLocks),
		},
		"back behind another: its name": {
			text: own, left: -1, change: isBack, want: begins(isLost),
		},
		"back behind another: a record": {
			text: lost, left: waited(forLocks), change: isBack, want: begins(isLost),
		},
		"back behind another: no key": {change: isBack, want: begins(isLost)},
	} {
		k := known{wait: forLocks, heard: true, seenFor: time.Hour}
		if tc.change != nil {
			tc.change(&k)
		}
		s := sight{server: server{runID: own, memory: own}, text: tc.text, left: tc.left}
		got := decide(&s, &k)
		if got.action == begin {
			require.Len(t, got.record.nonce, 26, name)
			got.record.nonce = ""
			if tc.want.record.wait = forLocks; k.wait != forLocks {
				tc.want.record.wait = k.wait
			}
		}
		require.Equal(t, tc.want, got, name)
	}
	// A server that may have been a replica owns exactly its own.
	was := server{runID: own, memory: own + ".y"}
	for memory, owned := range map[string]bool{
		own: false, own + ".y": true, own + ".x": false, "": false,
	} {
		require.Equal(t, owned, was.owns(memory), memory)
	}
	require.False(t, (&server{}).owns(""))
}

var admits10 = decision{action: admit, most: waited(forLocks)}

func begins(kind string) decision {
	return decision{action: begin, record: record{kind: kind, memory: own}}
}

func changes(kind string, wait time.Duration) decision {
	return decision{action: change, record: record{kind, wait, own, "n"}}
}

func knowsLoss(k *known) { k.lost = true }
func deaf(k *known)      { k.heard = false }
func longer(k *known)    { k.wait = 20 * second }
func shorter(k *known)   { k.wait = second }
func isBack(k *known)    { k.returned = true }

func sawIt(ago time.Duration) func(*known) { return func(k *known) { k.seenFor = ago } }

// The goal: what is written is read again, and nothing else is a record.
func TestRecord_IsReadAsItWasWritten(t *testing.T) {
	for _, r := range []record{
		newRecord(isNew, second, own), newRecord(isLost, 90*24*time.Hour, own+".x"),
		newRecord(isLost, time.Millisecond, strings.Repeat("f", 81)),
	} {
		got, ok := parse(r.text())
		require.True(t, ok, r.text())
		require.Equal(t, r, got)
		require.False(t, plain(r.text()), "no record is a name")
	}
	for _, text := range []string{
		"", own, "lost:", "lost:1000:aa", "lost:1000:aa:n:", "lost:0:aa:n", "lost:-1:aa:n",
		"lost:x:aa:n", "gone:1000:aa:n", "lost:99999999999999999:aa:n", "lost:9223372036854:aa:n",
		"lost:1000:a a:n", "Lost:1000:aa:n",
	} {
		_, ok := parse(text)
		require.False(t, ok, text)
	}
}

// world is a server as it really is: it knows when it lost locks. It is the slow, dumb version of
// the rules.
type world struct {
	now     time.Duration
	run     int
	text    string
	ends    time.Duration // of the key; 0: never
	lostAt  time.Duration // since it has all locks
	longest time.Duration // MaxTTL of those who got votes
	lost    time.Duration // the longest one then
	copied  string        // the key in a file or on a replica
}

func (w *world) memory() string { return fmt.Sprint("run", w.run) }

// step is up to a second in which an accident may happen.
func (w *world) step(r *rand.Rand) {
	w.now += time.Duration(r.Int64N(int64(second)))
	if w.ends != 0 && w.now >= w.ends {
		w.text, w.ends = "", 0
	}
	switch r.IntN(100) {
	case 0: // it is flushed
		w.lose("")
	case 1: // it restarts empty
		w.run++
		w.lose("")
	case 2, 3: // it restarts with a copy, or gets one from a replica; the end of a record is kept
		w.run++
		w.lose(w.copied)
		if w.ends = 0; strings.Contains(w.text, ":") {
			w.ends = w.now + recordLasts - time.Duration(r.Int64N(int64(40*second)))
		}
	case 4, 5, 6:
		w.copied = w.text
	}
}

func (w *world) lose(text string) {
	w.text, w.ends, w.lostAt, w.lost = text, 0, w.now, w.longest
}

// The goal: whatever happens to a node, no client of several that come and go votes before the
// longest TTL has passed since the node lost locks, though they have different MaxTTLs. And clients
// do vote in the end.
func TestDecide_NeverVotesTooEarly(t *testing.T) {
	votes := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, clients := world{text: "run0", longest: second}, make([]*Guard, 3)
		maxTTLs := []time.Duration{second, 5 * second, 10 * second}
		lives := []int{3, 10, 100}[r.IntN(3)]
		for range 1000 {
			w.step(r)
			for i := range clients {
				if clients[i] == nil || r.IntN(lives) == 0 {
					clients[i] = new(Guard)
				}
				if r.IntN(3) == 0 && w.look(clients[i], r) {
					votes++
					if passed := w.now - w.lostAt; passed < w.lost {
						t.Fatalf("seed %d: a vote %v after the loss, and locks of %v", seed, passed, w.lost)
					}
					w.longest = max(w.longest, maxTTLs[i])
				}
			}
		}
	}
	require.Greater(t, votes, 10_000)
}

// look is what a client does that sees the server. It reports whether the server votes.
func (w *world) look(g *Guard, r *rand.Rand) (votes bool) {
	for {
		s := sight{server: server{runID: w.memory(), memory: w.memory()}, text: w.text, left: -1}
		if w.ends != 0 {
			s.left = w.ends - w.now
		}
		at := time.Unix(0, int64(w.now))
		if rec, ok := parse(w.text); ok && g.waits.nonce != rec.nonce {
			g.waits = waiting{nonce: rec.nonce, since: at, age: age(s.left)}
		}
		d := decide(&s, &known{
			lost: g.sawKey || r.IntN(3) == 0, wait: w.longest, heard: true,
			seenFor: g.waits.age + at.Sub(g.waits.since),
		})
		switch d.action {
		case vote:
			return true
		case wait:
			return false
		case begin:
			w.text, w.ends = d.record.text(), w.now+recordLasts
		case change:
			w.text = d.record.text()
		case admit:
			if s.left > d.most {
				return false
			}
			w.text, w.ends = w.memory(), 0
		}
	}
}

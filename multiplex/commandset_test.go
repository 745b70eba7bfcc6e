package multiplex

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// newest is every command that newer servers have.
const newest = link.MSETEX | link.DELIFEQ

// wanting returns an attempt for these keys, which is its claim's newest one.
func wanting(m *Mux, k kind, ttl time.Duration, keys ...string) *Attempt {
	c := new(Claim)
	c.Init("", keys, "t"+keys[0])
	a := m.newAttempt(c, k, ttl, time.Second, time.Minute)
	c.latest, c.acquired = a, m.all()
	return a
}

// newerFlush returns a flush whose attempts were encoded for a server with the newer commands.
func newerFlush(m *Mux, attempts ...*Attempt) *flush {
	f, e := newFlushOf(m.nodes[0], attempts...), m.newEncoding(newest)
	f.conn, f.set = new(link.Conn), newest
	f.conn.Allow(newest)
	for i, a := range attempts {
		e.add(i, a)
		f.answers[i] = answer{vote: granted, replied: true, keyIndex: -1}
	}
	e.end()
	f.sending = append(f.sending, part{e, 0})
	f.trip.Commands = len(e.commands)
	return f
}

// words returns the commands of an encoding.
func words(t *testing.T, e *encoding) (all [][]string) {
	t.Helper()
	in := resptest.NewReader(bytes.NewReader(e.bytes))
	for range e.commands {
		args, err := resptest.ReadCommand(in)
		require.NoError(t, err)
		all = append(all, args)
	}
	require.Zero(t, in.Buffered())
	return all
}

// names returns the first words of the commands of an encoding.
func names(t *testing.T, e *encoding) (all []string) {
	t.Helper()
	for _, command := range words(t, e) {
		all = append(all, command[0])
	}
	return all
}

// The goal: of all acquires of a round each is in one command, with its TTL and token. In one
// MSETEX no key is twice, because it would be granted twice; and no key is in it that a node has
// refused lately.
func TestTogether_NoKeyIsTwiceInACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		rng := rand.New(rand.NewPCG(1, 1))
		for range 300 {
			m.refused = refusedKeys{}
			m.refused.add("k0", time.Now())
			var attempts []*Attempt
			for range rng.IntN(60) {
				var keys []string
				for _, k := range rng.Perm(200)[:1+rng.IntN(4)*rng.IntN(2)] {
					keys = append(keys, fmt.Sprint("k", k))
				}
				ttl := []time.Duration{time.Minute, time.Minute, time.Hour}[rng.IntN(3)]
				attempts = append(attempts, wanting(m, acquire, ttl, keys...))
			}
			e := newerFlush(m, attempts...).sending[0].encoding
			seen := map[int]bool{}
			for i, command := range words(t, e) {
				p := e.commands[i]
				if command[0] != "MSETEX" {
					continue
				}
				want, keys := []string{"MSETEX", ""}, map[string]bool{}
				require.LessOrEqual(t, len(p.attempts), maxTogether)
				for _, s := range p.attempts {
					require.False(t, seen[s.index])
					seen[s.index] = true
					require.Same(t, attempts[s.index], s.attempt)
					for _, key := range s.attempt.claim.keys() {
						require.False(t, keys[key], "%s is twice in %v", key, command)
						keys[key] = true
						want = append(want, key, s.attempt.claim.Token())
					}
					require.Equal(t, command[len(command)-1], s.attempt.ttlText)
				}
				want[1] = strconv.Itoa(len(keys))
				want = append(want, "NX", "PX", p.attempts[0].attempt.ttlText)
				require.Equal(t, want, command)
				require.NotContains(t, keys, "k0")
			}
			for _, p := range e.commands {
				owners := []int{p.index}
				switch {
				case p.newer != 0:
					continue
				case p.call != nil:
					owners = p.call.Owners
				}
				for _, at := range owners {
					require.False(t, seen[at])
					seen[at] = true
				}
			}
			require.Len(t, seen, len(attempts))
		}
	})
}

// The goal: of acquires whose MSETEX has set nothing each is asked for alone, but not one that was
// released meanwhile: it must not follow its release.
func TestTogether_AHeldKeyHasEachAskedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		attempts := []*Attempt{
			wanting(m, acquire, time.Minute, "a"), wanting(m, acquire, time.Minute, "b"),
			wanting(m, acquire, time.Minute, "c"), wanting(m, acquire, time.Minute, "x", "y"),
			wanting(m, acquire, time.Minute, "z", "free"),
		}
		f := newerFlush(m, attempts...)
		require.Equal(t, []string{"MSETEX", "MSETEX", "MSETEX"}, names(t, f.sending[0].encoding))
		f.OnReply(0, integerReply(0))
		f.OnReply(1, integerReply(0))
		f.OnReply(2, integerReply(1))
		released := attempts[1].claim
		released.latest = m.newAttempt(released, release, 0, time.Second, time.Minute)
		f.buildRetry()
		require.Equal(t, []string{"SCRIPT", "SET", "SET", "EVALSHA"}, names(t, &f.again),
			"the script may be missing: nothing has used it")
		f.OnReply(0, errorReply("NOPERM"))
		f.OnReply(1, resp.Reply{Kind: resp.KindNull})
		f.OnReply(2, resp.Reply{Kind: resp.KindStatus, Text: []byte("OK")})
		f.OnReply(3, resp.Reply{Kind: resp.KindIntegers, Ints: []int64{0, 1, 2}})
		won := answer{vote: granted, replied: true, keyIndex: -1}
		require.Equal(t, []answer{
			{vote: refused, leftNothing: true, replied: true},
			{leftNothing: true, err: errSuperseded},
			won,
			{vote: refused, leftNothing: true, replied: true, keyIndex: 1},
			won,
		}, f.answers)
		later := func() []string {
			f := newerFlush(m, wanting(m, acquire, time.Minute, "a"),
				wanting(m, acquire, time.Minute, "b"), wanting(m, acquire, time.Minute, "c"),
				wanting(m, acquire, time.Minute, "y", "new"))
			return names(t, f.sending[0].encoding)
		}
		require.Equal(t, []string{"MSETEX", "SET", "EVALSHA"}, later(), "refused lately: a and y")
		time.Sleep(refusedTTL)
		require.Equal(t, []string{"MSETEX", "MSETEX"}, later())
	})
}

// The goal: what a newer command that failed was for is unknown, all of it; and what the server has
// not executed for certain has left nothing.
func TestNewerCommands_AFailureIsForAllOfTheirAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		for _, reply := range []resp.Reply{
			errorReply("OOM command not allowed"), errorReply("ERR unknown"), integerReply(2),
			{Kind: resp.KindNull},
			{Kind: resp.KindStatus, Text: []byte("OK")},
		} {
			f := newerFlush(m, wanting(m, acquire, time.Minute, "a"),
				wanting(m, acquire, time.Minute, "b"), wanting(m, release, 0, "c"))
			require.Equal(t, []string{"DELIFEQ", "MSETEX"}, names(t, f.sending[0].encoding))
			f.OnReply(0, reply)
			f.OnReply(1, reply)
			require.Empty(t, f.alone)
			for _, r := range f.answers {
				require.Equal(t, unknown, r.vote)
				require.True(t, r.replied)
				require.False(t, r.broken)
				require.Equal(t, string(reply.Text) == "OOM command not allowed", r.leftNothing)
			}
		}
		f := newerFlush(m, wanting(m, acquire, time.Minute, "a"),
			wanting(m, acquire, time.Minute, "b"), wanting(m, release, 0, "c"))
		f.failFrom(0, answer{broken: true, err: errConnectionLost})
		for _, r := range f.answers {
			require.Equal(t, answer{broken: true, err: errConnectionLost}, r)
		}
	})
}

// The goal: a key that the user may not use fails no other caller's, and the connection uses the
// command no more. A key of another type is not ours, so it is released.
func TestNewerCommands_AForbiddenKeyFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		f := newerFlush(m, wanting(m, acquire, time.Minute, "a"),
			wanting(m, acquire, time.Minute, "b"), wanting(m, release, 0, "c"),
			wanting(m, release, 0, "d"))
		require.Equal(t, []string{"DELIFEQ", "DELIFEQ", "MSETEX"},
			names(t, f.sending[0].encoding))
		f.OnReply(0, errorReply("WRONGTYPE Operation against a key of another type"))
		require.Equal(t, newest, f.conn.Commands())
		f.OnReply(1, errorReply("NOPERM No permissions to access a key"))
		require.Equal(t, link.MSETEX, f.conn.Commands())
		f.OnReply(2, errorReply("NOPERM No permissions to access a key"))
		require.Zero(t, f.conn.Commands())
		f.buildRetry()
		require.Equal(t, []string{"SCRIPT", "EVALSHA", "SET", "SET"}, names(t, &f.again))
		f.OnReply(1, integerReply(1))
		f.OnReply(2, errorReply("NOPERM No permissions to access a key"))
		for i, r := range f.answers {
			require.Equal(t, i != 0, r.vote == granted)
		}
	})
}

// The goal: what is sent once more without a newer command, because the user may not use it with
// some key, is in a call of its own: that key fails no other caller's.
func TestNewerCommands_AForbiddenKeyFailsNoOtherByScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		forbidden := errorReply("NOPERM No permissions to access a key")
		f := newerFlush(m, wanting(m, release, 0, "a"), wanting(m, release, 0, "mine"),
			wanting(m, acquire, time.Minute, "b", "c"), wanting(m, acquire, time.Minute, "d", "no"))
		require.Equal(t, []string{"DELIFEQ", "DELIFEQ", "MSETEX", "MSETEX"},
			names(t, f.sending[0].encoding))
		f.OnReply(0, forbidden)
		f.OnReply(1, forbidden)
		f.OnReply(2, integerReply(0))
		f.OnReply(3, forbidden)
		f.buildRetry()
		for i, p := range f.again.commands {
			switch {
			case p.call == nil:
				f.OnReply(i, resp.Reply{Kind: resp.KindStatus, Text: []byte("sha")})
			case slices.Contains(p.call.Keys, "a"), slices.Contains(p.call.Keys, "no"):
				f.OnReply(i, forbidden)
			case p.script == script.Release:
				f.OnReply(i, integerReply(1))
			default:
				f.OnReply(i, resp.Reply{Kind: resp.KindIntegers, Ints: []int64{0, 1, 2}})
			}
		}
		var votes []vote
		for _, r := range f.answers {
			votes = append(votes, r.vote)
		}
		require.Equal(t, []vote{unknown, granted, refused, unknown}, votes)
	})
}

// The goal: a round is encoded for each set of commands that a connected node has, and for no
// other. A node for whose set there is nothing makes its own commands.
func TestNewerCommands_ARoundIsEncodedForEachSetInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		var mu sync.Mutex
		var encoded, alone []int // the sets, and the nodes that make commands of their own
		var conns [3]link.Conn
		connected := [3]bool{true, true, true}
		for i, set := range []link.CommandSet{newest, newest, link.DELIFEQ} {
			conn := &conns[i]
			conn.Allow(set)
			m.nodes[i].newer = func() (link.CommandSet, bool) {
				return conn.Commands(), connected[i]
			}
			send := answeredBy(stores[i].flush)
			m.nodes[i].sendFlush = func(f *flush) {
				f.set = conn.Commands()
				mu.Lock()
				if !f.canShare(conn, time.Now()) {
					alone = append(alone, i)
				}
				mu.Unlock()
				if i == 0 {
					for set, e := range f.rounds.Rounds[0].State.shared {
						if e != nil {
							encoded = append(encoded, set)
						}
					}
				}
				send(f)
			}
		}
		check := func(sets, own []int) {
			encoded, alone = nil, nil
			c := claim("k", "t")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, sets, encoded)
			require.ElementsMatch(t, own, alone)
			stores[0].free("k")
			stores[1].free("k")
			stores[2].free("k")
		}
		check([]int{int(link.DELIFEQ), int(newest)}, nil)
		connected[2] = false
		check([]int{int(newest)}, []int{2})
		conns[0].Forbid(newest)
		check([]int{0, int(newest)}, []int{2})
		connected = [3]bool{}
		check([]int{0}, []int{1, 2})
	})
}

// The goal: the memory of refused keys is bounded, and a key is forgotten.
func TestRefusedKeys_AreBoundedAndForgotten(t *testing.T) {
	var k refusedKeys
	now := time.Now()
	require.False(t, k.hasAny([]string{"a"}, now))
	k.add("a", now)
	require.True(t, k.hasAny([]string{"b", "a"}, now.Add(refusedTTL-1)))
	require.False(t, k.hasAny([]string{"b"}, now))
	require.False(t, k.hasAny([]string{"a"}, now.Add(refusedTTL)))
	require.False(t, k.known.Load())
	for i := range 3*maxRefused + 1 {
		k.add(strconv.Itoa(i), now)
		require.LessOrEqual(t, len(k.until), maxRefused)
	}
	require.True(t, k.hasAny([]string{strconv.Itoa(3 * maxRefused)}, now))
}

// The goal: a set that one MSETEX could block the server with goes by scripts.
func TestTogether_LargeSetsGoByScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		for count, want := range map[int][]string{
			script.MaxKeys: {"MSETEX"}, script.MaxKeys + 1: {"EVALSHA", "EVALSHA"},
		} {
			keys := make([]string, count)
			for i := range keys {
				keys[i] = fmt.Sprint("k", i)
			}
			f := newerFlush(m, wanting(m, acquire, time.Minute, keys...))
			require.Equal(t, want, names(t, f.sending[0].encoding))
		}
	})
}

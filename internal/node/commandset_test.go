package node

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/refusals"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// newest is every command that newer servers have.
const newest = link.MSETEX | link.DELIFEQ

// newerFlush returns a flush whose operations were encoded for a server with the newer commands.
func newerFlush(n *Node, operations ...*fake) *Flush {
	f, e := newFlushOf(n, operations...), n.group.newEncoding(newest, false)
	f.conn, f.set = new(link.Conn), newest
	f.conn.Allow(newest)
	for i, o := range operations {
		e.add(i, &o.op)
		f.Answers[i] = Answer{Vote: Granted, Replied: true, KeyIndex: -1}
	}
	e.end()
	f.sending = append(f.sending, part{e, 0})
	f.trip.Commands = len(e.commands)
	return f
}

// words returns the commands of an encoding, as the second node is sent them.
func words(t *testing.T, e *Encoding) (all [][]string) {
	t.Helper()
	in := resptest.NewReader(bytes.NewReader(e.appendTo(nil, 1, "")))
	for range e.commands {
		args, err := resptest.ReadCommand(in)
		require.NoError(t, err)
		all = append(all, args)
	}
	require.Zero(t, in.Buffered())
	return all
}

// names returns the first words of the commands of an encoding.
func names(t *testing.T, e *Encoding) (all []string) {
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
		n := newNode()
		rng := rand.New(rand.NewPCG(1, 1))
		for range 300 {
			n.group.refused = refusals.Keys{}
			n.group.refused.Add("k0", time.Now())
			var operations []*fake
			for range rng.IntN(60) {
				var keys []string
				for _, k := range rng.Perm(200)[:1+rng.IntN(4)*rng.IntN(2)] {
					keys = append(keys, fmt.Sprint("k", k))
				}
				ttl := []time.Duration{time.Minute, time.Minute, time.Hour}[rng.IntN(3)]
				operations = append(operations, wanting(Acquire, ttl, keys...))
			}
			e := newerFlush(n, operations...).sending[0].Encoding
			seen := map[int]bool{}
			for i, command := range words(t, e) {
				p := e.commands[i]
				if command[0] != "MSETEX" {
					continue
				}
				want, keys := []string{"MSETEX", ""}, map[string]bool{}
				require.LessOrEqual(t, len(p.singles), maxTogether)
				for _, s := range p.singles {
					require.False(t, seen[s.index])
					seen[s.index] = true
					require.Same(t, &operations[s.index].op, s.op)
					for _, key := range s.op.Keys.All() {
						require.False(t, keys[key], "%s is twice in %v", key, command)
						keys[key] = true
						want = append(want, key, s.op.Keys.Token()+"B")
					}
					require.Equal(t, command[len(command)-1], s.op.TTL)
				}
				want[1] = strconv.Itoa(len(keys))
				want = append(want, "NX", "PX", p.singles[0].op.TTL)
				require.Equal(t, want, command)
				require.NotContains(t, keys, "k0")
			}
			for _, p := range e.commands {
				var owners []int
				switch {
				case p.newer != 0:
				case p.call != nil:
					owners = p.call.Owners
				default:
					owners = []int{p.singles[0].index}
				}
				for _, at := range owners {
					require.False(t, seen[at])
					seen[at] = true
				}
			}
			require.Len(t, seen, len(operations))
		}
	})
}

// The goal: of acquires whose MSETEX has set nothing each is asked for alone, but not one that was
// released meanwhile: it must not follow its release.
func TestTogether_AHeldKeyHasEachAskedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		operations := []*fake{
			wanting(Acquire, time.Minute, "a"), wanting(Acquire, time.Minute, "b"),
			wanting(Acquire, time.Minute, "c"), wanting(Acquire, time.Minute, "x", "y"),
			wanting(Acquire, time.Minute, "z", "free"),
		}
		f := newerFlush(n, operations...)
		require.Equal(t, []string{"MSETEX", "MSETEX", "MSETEX"}, names(t, f.sending[0].Encoding))
		f.OnReply(0, integerReply(0))
		f.OnReply(1, integerReply(0))
		f.OnReply(2, integerReply(1))
		operations[1].skip = ErrSuperseded
		f.buildRetry()
		require.Equal(t, []string{"SCRIPT", "SET", "SET", "EVALSHA"},
			names(t, f.sending[0].Encoding), "the script may be missing: nothing has used it")
		f.OnReply(0, errorReply("NOPERM"))
		f.OnReply(1, resp.Reply{Kind: '_'})
		f.OnReply(2, resp.Reply{Kind: '+', Text: []byte("OK")})
		f.OnReply(3, resp.Reply{Kind: '*', Ints: []int64{0, 1, 2}})
		won := Answer{Vote: Granted, Replied: true, KeyIndex: -1}
		require.Equal(t, []Answer{
			{Vote: Refused, LeftNothing: true, Replied: true},
			{LeftNothing: true, Err: ErrSuperseded},
			won,
			{Vote: Refused, LeftNothing: true, Replied: true, KeyIndex: 1},
			won,
		}, f.Answers)
		later := func() []string {
			f := newerFlush(n, wanting(Acquire, time.Minute, "a"),
				wanting(Acquire, time.Minute, "b"), wanting(Acquire, time.Minute, "c"),
				wanting(Acquire, time.Minute, "y", "new"))
			return names(t, f.sending[0].Encoding)
		}
		require.Equal(t, []string{"MSETEX", "SET", "EVALSHA"}, later(), "refused lately: a and y")
		time.Sleep(time.Second) // as long as refusals are remembered
		require.Equal(t, []string{"MSETEX", "MSETEX"}, later())
	})
}

// The goal: what a newer command that failed was for is unknown, all of it; and what the server has
// not executed for certain has left nothing.
func TestNewerCommands_AFailureIsForAllOfTheirAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		for _, reply := range []resp.Reply{
			errorReply("OOM command not allowed"), errorReply("ERR unknown"), integerReply(2),
			{Kind: '_'},
			{Kind: '+', Text: []byte("OK")},
		} {
			f := newerFlush(n, wanting(Acquire, time.Minute, "a"),
				wanting(Acquire, time.Minute, "b"), wanting(Release, 0, "c"))
			require.Equal(t, []string{"DELIFEQ", "MSETEX"}, names(t, f.sending[0].Encoding))
			f.OnReply(0, reply)
			f.OnReply(1, reply)
			require.Empty(t, f.again)
			for _, r := range f.Answers {
				require.Equal(t, Unknown, r.Vote)
				require.True(t, r.Replied)
				require.False(t, r.Broken)
				require.Equal(t, string(reply.Text) == "OOM command not allowed", r.LeftNothing)
			}
		}
		f := newerFlush(n, wanting(Acquire, time.Minute, "a"),
			wanting(Acquire, time.Minute, "b"), wanting(Release, 0, "c"))
		f.failFrom(0, Answer{Broken: true, Err: ErrConnectionLost})
		for _, r := range f.Answers {
			require.Equal(t, Answer{Broken: true, Err: ErrConnectionLost}, r)
		}
	})
}

// The goal: a key that the user may not use fails no other caller's, and the connection uses the
// command no more. A key of another type is not ours, so it is gone.
func TestNewerCommands_AForbiddenKeyFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		f := newerFlush(n, wanting(Acquire, time.Minute, "a"),
			wanting(Acquire, time.Minute, "b"), wanting(Release, 0, "c"),
			wanting(Release, 0, "d"))
		require.Equal(t, []string{"DELIFEQ", "DELIFEQ", "MSETEX"},
			names(t, f.sending[0].Encoding))
		f.OnReply(0, errorReply("WRONGTYPE Operation against a key of another type"))
		require.Equal(t, newest, f.conn.Commands())
		f.OnReply(1, errorReply("NOPERM No permissions to access a key"))
		require.Equal(t, link.MSETEX, f.conn.Commands())
		f.OnReply(2, errorReply("NOPERM No permissions to access a key"))
		require.Zero(t, f.conn.Commands())
		f.buildRetry()
		require.Equal(t, []string{"SCRIPT", "EVALSHA", "SET", "SET"},
			names(t, f.sending[0].Encoding))
		f.OnReply(1, integerReply(1))
		f.OnReply(2, errorReply("NOPERM No permissions to access a key"))
		for i, r := range f.Answers {
			require.Equal(t, i != 0 && i != 2, r.Vote == Granted, i)
		}
	})
}

// The goal: what is sent once more without a newer command, because the user may not use it with
// some key, is in a call of its own: that key fails no other caller's.
func TestNewerCommands_AForbiddenKeyFailsNoOtherByScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		forbidden := errorReply("NOPERM No permissions to access a key")
		f := newerFlush(n, wanting(Release, 0, "a"), wanting(Release, 0, "mine"),
			wanting(Acquire, time.Minute, "b", "c"), wanting(Acquire, time.Minute, "d", "no"))
		require.Equal(t, []string{"DELIFEQ", "DELIFEQ", "MSETEX", "MSETEX"},
			names(t, f.sending[0].Encoding))
		f.OnReply(0, forbidden)
		f.OnReply(1, forbidden)
		f.OnReply(2, integerReply(0))
		f.OnReply(3, forbidden)
		f.buildRetry()
		for i, p := range f.sending[0].commands {
			switch {
			case p.call == nil:
				f.OnReply(i, resp.Reply{Kind: '+', Text: []byte("sha")})
			case slices.Contains(p.call.Keys, "a"), slices.Contains(p.call.Keys, "no"):
				f.OnReply(i, forbidden)
			case p.script == script.Release:
				f.OnReply(i, integerReply(1))
			default:
				f.OnReply(i, resp.Reply{Kind: '*', Ints: []int64{0, 1, 2}})
			}
		}
		var votes []Vote
		for _, r := range f.Answers {
			votes = append(votes, r.Vote)
		}
		require.Equal(t, []Vote{Unknown, Granted, Refused, Unknown}, votes)
	})
}

// The goal: a set that one MSETEX could block the server with goes by scripts.
func TestTogether_LargeSetsGoByScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		for count, want := range map[int][]string{
			script.MaxKeys: {"MSETEX"}, script.MaxKeys + 1: {"EVALSHA", "EVALSHA"},
		} {
			keys := make([]string, count)
			for i := range keys {
				keys[i] = fmt.Sprint("k", i)
			}
			f := newerFlush(n, wanting(Acquire, time.Minute, keys...))
			require.Equal(t, want, names(t, f.sending[0].Encoding))
		}
	})
}

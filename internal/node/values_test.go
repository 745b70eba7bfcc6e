package node

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// valued are operations with all forms of commands: for one key and several, and with fences.
func valued() (operations []*fake) {
	fenced := func(k Kind, last int64, keys ...string) *fake {
		o := wanting(k, time.Minute, keys...)
		o.op.Keys.SetFence(7, last)
		return o
	}
	return []*fake{
		wanting(Release, 0, "a"), wanting(Release, 0, "b", "c"),
		wanting(Acquire, time.Minute, "d"), wanting(Acquire, time.Minute, "e"),
		wanting(Acquire, time.Minute, "f", "g"),
		fenced(Acquire, 7, "k"), fenced(Acquire, 9, "l", "m"),
		wanting(Extend, time.Minute, "n"), wanting(Extend, time.Hour, "o", "p"),
		fenced(Extend, 9, "q"),
	}
}

// encoded returns the commands of these operations as the node with this index is sent them.
func encoded(n *Node, set link.CommandSet, node int, operations ...*fake) string {
	e := n.group.newEncoding(set, false)
	defer n.group.encodings.Put(e)
	for i, o := range operations {
		e.add(i, &o.op)
	}
	e.end()
	return string(e.appendTo([]byte("before"), node, ""))[len("before"):]
}

// The goal: each command has, for each key, the token and the character of the node, and fences as
// they are.
func TestValues_HaveTheCharacterOfTheNode(t *testing.T) {
	eval := func(s *script.Script, keys int, rest ...string) string {
		return resptest.Strings(append([]string{"EVALSHA", s.SHA, fmt.Sprint(keys)}, rest...)...)
	}
	const minute, hour = "60000", "3600000"
	raise := func(rest ...string) string {
		return resptest.Strings(append([]string{"ZADD", "lockpipe:fences", "GT", "CH"}, rest...)...)
	}
	member := func(key string) string { return fmt.Sprint(ids.FenceMember(key)) }
	shared := eval(script.Acquire, 2, "l", "m", "", "2", "tl5", minute) +
		raise("7", member("k"), "7", member("l"), "7", member("m")) +
		raise("9", member("l"), "9", member("m")) +
		raise("9", member("q")) +
		eval(script.Extend, 2, "n", "q", minute, "tn5", "tq5") +
		eval(script.Extend, 2, "o", "p", "", "2", "to5", hour)
	old := eval(script.Release, 1, "a", "1", "ta5") +
		eval(script.Release, 2, "b", "c", "", "2", "tb5") +
		resptest.Strings("SET", "d", "td5", "NX", "PX", minute) +
		resptest.Strings("SET", "e", "te5", "NX", "PX", minute) +
		resptest.Strings("SET", "k", "tk5", "NX", "PX", minute) +
		eval(script.Acquire, 2, "f", "g", "", "2", "tf5", minute)
	newer := resptest.Strings("DELIFEQ", "a", "ta5") +
		eval(script.Release, 2, "b", "c", "", "2", "tb5") +
		resptest.Strings("MSETEX", "2", "d", "td5", "e", "te5", "NX", "PX", minute) +
		resptest.Strings("MSETEX", "2", "f", "tf5", "g", "tf5", "NX", "PX", minute) +
		resptest.Strings("SET", "k", "tk5", "NX", "PX", minute)
	n := newNode()
	const node = 57
	require.Equal(t, byte('5'), ids.NodeChar(node))
	require.Equal(t, old+shared, encoded(n, 0, node, valued()...))
	require.Equal(t, newer+shared, encoded(n, newest, node, valued()...))
}

// The goal: what nodes are sent differs by their characters alone, also in a call that was divided,
// and the shared bytes have none.
func TestValues_DifferOnEachNode(t *testing.T) {
	n := newNode()
	for _, set := range []link.CommandSet{0, newest} {
		seen := map[string]bool{}
		for node := range 64 {
			text := encoded(n, set, node, valued()...)
			require.False(t, seen[text])
			require.NotContains(t, text, "=")
			seen[text] = true
		}
	}
	operations := []*fake{wanting(Extend, time.Minute, "a"), wanting(Extend, time.Minute, "b")}
	e := n.group.newEncoding(0, true)
	for i, o := range operations {
		e.add(i, &o.op)
	}
	e.end()
	require.Equal(t, 2, strings.Count(string(e.bytes), "=\r\n"))
	text := string(e.appendTo(nil, 2, ""))
	require.Contains(t, text, resptest.Bulk("taC"))
	require.Contains(t, text, resptest.Bulk("tbC"))
}

// The goal: a flush that was used before makes the bytes of its node without an allocation.
func TestValues_CopiesAllocateNothing(t *testing.T) {
	n := newNode()
	e, f := n.group.newEncoding(0, false), n.NewFlush(nil)
	for i := range MaxFlush {
		e.add(i, &wanting(Acquire, time.Minute, fmt.Sprint("k", i)).op)
	}
	e.end()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		f.bytes = e.appendTo(f.bytes[:0], 3, "")
	}))
	require.Len(t, f.bytes, len(e.bytes))
}

// The goal: on a node in a Redis Cluster each key of each command begins with the node's tag, and
// nothing else differs from what other nodes are sent.
func TestValues_KeysBeginWithTheTag(t *testing.T) {
	const tag = "{1o5k}"
	n := newNode()
	for set := range link.Tagged {
		plain := n.group.newEncoding(set, false)
		tagged := n.group.newEncoding(set|link.Tagged, false)
		for i, o := range valued() {
			plain.add(i, &o.op)
			tagged.add(i, &o.op)
		}
		plain.end()
		tagged.end()
		text := string(tagged.appendTo(nil, 3, tag))
		require.NotContains(t, text, "?")
		require.NotEqual(t, string(plain.appendTo(nil, 3, "")), text)
		for _, key := range []string{"a", "b"} {
			require.NotContains(t, text, resptest.Bulk(key))
		}
		untagged := regexp.MustCompile(`\$(\d+)\r\n\{1o5k\}`).ReplaceAllStringFunc(text,
			func(found string) string {
				var size int
				_, err := fmt.Sscanf(found, "$%d", &size)
				require.NoError(t, err)
				return fmt.Sprintf("$%d\r\n", size-len(tag))
			})
		require.Equal(t, string(plain.appendTo(nil, 3, "")), untagged)
	}
}

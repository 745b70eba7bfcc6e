package memorynode_test

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// talk is a connection to a node or to a server. Replies are compared byte for byte.
type talk struct {
	t    *testing.T
	conn net.Conn
}

// marker ends each question, so that the end of the replies is known.
const marker = "$10\r\nthe marker\r\n"

// ask sends a command and returns all that comes before the reply to a further one.
func (c talk) ask(args ...string) string {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := c.conn.Write(append(command(args...), command("ECHO", "the marker")...))
	require.NoError(c.t, err)
	var got []byte
	for chunk := make([]byte, 4096); !bytes.HasSuffix(got, []byte(marker)); {
		n, err := c.conn.Read(chunk)
		require.NoError(c.t, err, "%s: %q", args, got)
		got = append(got, chunk[:n]...)
	}
	return string(bytes.TrimSuffix(got, []byte(marker)))
}

// conversation is what a client says, a line each. "wait" lets a short TTL pass.
const conversation = `
PING
DBSIZE
PING hello
SET k v
SET k w NX
SET k w XX
SET k x GET
SET none x GET XX
SETNX k v
SETNX fresh v
GET k
get none
GETRANGE k 0 0
GETRANGE k 0 -1
GETRANGE k 5 9
MGET k none fresh
EXISTS k none k
TYPE k
TYPE none
SET short v PX 100000
SET short v PX 0
SET short v PX x
SET short v EX
SET short v KEEPTTL
SET seconds v EX 100
TTL seconds
TTL none
TTL k
PTTL none
PTTL k
PEXPIRE none 5
PEXPIRE k 90000 XX
PEXPIRE k 90000 NX
PEXPIRE k 10 GT
PEXPIRE k 10 odd
PEXPIRE k x
EXPIRE k 100 GT
PERSIST k
PERSIST k
PEXPIRE k 0
GET k
DBSIZE
DEL short none
UNLINK seconds
ZADD z 1 a 2 b
ZADD z GT CH 0 a 3 b 1 c
ZADD z LT CH 0 a
ZADD z NX 9 a
ZADD z XX CH 9 none
ZADD z 1
ZADD z x a
ZADD z 1.5 a
ZSCORE z a
ZSCORE z none
ZMSCORE z a none b
ZMSCORE none a
ZCARD z
ZCARD none
TYPE z
GET z
ZADD fresh 1 a
SET z v NX
MGET z
SET z v GET
SCRIPT EXISTS none
EVALSHA 0000000000000000000000000000000000000000 0
PUBLISH nobody hello
CLIENT CACHING YES
CLIENT TRACKING OFF
CONFIG GET maxmemory-policy
CONFIG GET none
SCAN 0 MATCH z COUNT 100
SCAN 0 MATCH none* COUNT 100
KEYS fres?
CLUSTER SLOTS
GET
SET k
FLUSHALL
DBSIZE
SUBSCRIBE one two
UNSUBSCRIBE one
UNSUBSCRIBE
DBSIZE
UNSUBSCRIBE`

// newerConversation is about the commands of newer servers.
const newerConversation = `
MSETEX 2 a 1 b 2 NX PX 100000
MSETEX 2 a 3 c 3 NX PX 100000
MGET a b c
MSETEX 2 a 4 c 4 XX PX 100000
MSETEX 2 a 4 b 4 XX PX 100000
MGET a b c
MSETEX 2 d 1 d 2 NX PX 100000
GET d
MSETEX 1 e 1 NX PX 100000
MSETEX 2 a 1 NX PX 100000
MSETEX 0 NX PX 100000
MSETEX x a 1 NX PX 100000
DELIFEQ a another
DELIFEQ none 4
GET a
DELIFEQ a 4
DELIFEQ a 4
DELIFEQ a
MGET a b c d e
DBSIZE`

// The goal: a node replies as a server does, in both protocols.
func TestNode_RepliesAsAServerDoes(t *testing.T) {
	servers := servertest.Start(t, 1)
	compareReplies(t, servers, conversation, false)
}

// The goal: a node that is to be as a newer server replies as that does.
func TestNode_RepliesAsANewerServerDoes(t *testing.T) {
	servers := servertest.Start(t, 1)
	for _, command := range []string{"MSETEX", "DELIFEQ"} {
		reply, err := servers.Do(0, "COMMAND", "INFO", command)
		require.NoError(t, err)
		if known, ok := reply.([]any); !ok || known[0] == nil {
			t.Skip("this server does not know ", command)
		}
	}
	compareReplies(t, servers, newerConversation, true)
}

// compareReplies has the same conversation with a server and with a node, in both protocols.
func compareReplies(t *testing.T, servers *lockpipetest.Nodes, text string, newer bool) {
	t.Helper()
	// Redis says more than Valkey, and a client goes by the first word.
	sameNoScript := strings.NewReplacer("No matching script. Please use EVAL.", "No matching script.")
	for _, proto := range []string{"2", "3"} {
		n := memorynode.New(0, 1)
		n.Newer = newer
		t.Cleanup(n.Stop)
		node := talk{t, n.Dial()}
		conn, err := net.Dial("tcp", strings.TrimPrefix(servers.URLs()[0], "redis://"))
		require.NoError(t, err)
		server := talk{t, conn}
		for _, c := range []talk{node, server} {
			c.ask("HELLO", proto)
			c.ask("FLUSHALL")
		}
		for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
			args := strings.Fields(line)
			if strings.Contains(line, "SUBSCRIBE") && proto == "2" {
				continue // a further command would be refused: see below
			}
			require.Equal(t, sameNoScript.Replace(server.ask(args...)),
				sameNoScript.Replace(node.ask(args...)), "RESP%s: %s", proto, line)
		}
		require.NoError(t, node.conn.Close())
		require.NoError(t, server.conn.Close())
	}
}

// The goal: the usual scripts of other clients do what they do on a server, however they are
// written.
func TestNode_KnowsTheUsualScriptsOfOtherClients(t *testing.T) {
	servers := servertest.Start(t, 1)
	scripts := []string{
		`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`,
		`if redis.call('GET', KEYS[1]) == ARGV[1]
		then -- ours
		  return redis.call('PEXPIRE', KEYS[1], ARGV[2]);
		end;
		return 0`,
		`local v = redis.call("GET", KEYS[1])
		if v == ARGV[1] then return redis.call("UNLINK", KEYS[1]) elseif v == false then
			return -1 else return 0 end`,
		`if ARGV[1] == redis.call("get", KEYS[1]) then return redis.call("expire", KEYS[1], ARGV[2])
		elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then return 1
		else return 0 end`,
	}
	n := memorynode.New(0, 1)
	for _, source := range scripts {
		for _, held := range []string{"", "token", "another"} {
			both := func(args ...string) (server, node any) {
				server, err := servers.Do(0, args...)
				require.NoError(t, err)
				return server, value(t, ask(t, n, args...))
			}
			both("DEL", "k")
			if held != "" {
				both("SET", "k", held, "PX", "100000")
			}
			server, node := both("EVAL", source, "1", "k", "token", "70000")
			require.Equal(t, server, node, "%s, held by %q", source, held)
			server, node = both("GET", "k")
			require.Equal(t, server, node, "%s, held by %q", source, held)
			server, node = both("TTL", "k")
			require.InDelta(t, server, node, 30, "%s, held by %q", source, held)
		}
	}
}

// The goal: what a node does not know it refuses, and says why. A broken client loses its
// connection.
func TestNode_RefusesWhatItDoesNotKnow(t *testing.T) {
	n := memorynode.New(0, 1)
	t.Cleanup(n.Stop)
	for _, args := range [][]string{
		{"HSET", "k", "f", "v"},
		{"CLIENT", "PAUSE", "5"},
		{"CLIENT", "TRACKING", "ON", "BCAST"},
		{"CONFIG", "SET", "maxmemory", "1"},
		{"SCRIPT", "KILL"},
		{"EVAL", "return 1", "0"},
		{"MSETEX", "1", "k", "v", "NX", "PX", "5"},
	} {
		require.Regexp(t, `^-ERR unknown .* not Redis; use redis-server for it\r\n$`,
			ask(t, n, args...))
	}
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "*0\r\n", "*1\r\n:1\r\n", "*-1\r\n", "*1\r\n$1\r\nabc"} {
		conn := n.Dial()
		go func() { _, _ = conn.Write([]byte(text)) }()
		_, err := conn.Read(make([]byte, 1))
		require.Error(t, err, text)
	}
	require.Equal(t, "+PONG\r\n", ask(t, n, "PING"))
}

package multiplex

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// commandSupport is how a server replies to DELEX and DELIFEQ, as RESP. A command that is not in it
// is unknown to the server.
type commandSupport map[string]string

const (
	does    = "does what it is asked for"
	hangsUp = "ends the connection"
)

var (
	redis84  = commandSupport{"DELEX": does}
	valkey90 = commandSupport{"DELIFEQ": does}
	redis70  = commandSupport{}
)

// commandServer is a server in memory whose commandSupport can change.
type commandServer struct {
	redis *miniredis.Miniredis

	mu      sync.Mutex // guards all below
	speaks  commandSupport
	next    commandSupport // what it speaks after it has ended a connection
	noKey   string         // the script may not touch it
	heard   []string       // the releases, each as its command; EVALSHA with the number of keys
	current net.Conn
}

// withCommandServers runs a test with such servers, and a client that is connected to all of them,
// in a bubble.
func withCommandServers(t *testing.T, test func(t *testing.T, m *Mux, all []*commandServer),
	dialects ...commandSupport,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		all, urls := map[string]*commandServer{}, make([]string, len(dialects))
		inOrder := make([]*commandServer, len(dialects))
		for i, d := range dialects {
			l := &commandServer{redis: miniredis.NewMiniRedis(), speaks: d, next: d}
			conn, err := l.redis.Dial() // starts it
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			l.redis.Server().SetPreHook(l.before)
			t.Cleanup(l.redis.Close)
			urls[i] = fmt.Sprintf("node-%d:6379", i)
			all[urls[i]], inOrder[i] = l, l
		}
		m := start(t, urls, func(c *Config) {
			c.Guard = GuardOff
			c.Dial = func(_ context.Context, _, address string) (net.Conn,
				error,
			) {
				return all[address].dial(), nil
			}
		})
		up(t, m)
		test(t, m, inOrder)
		require.NoError(t, m.Close(t.Context()))
	})
}

func (l *commandServer) dial() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	client, conn := net.Pipe()
	l.current = conn
	l.redis.Server().ServeConn(conn)
	return client
}

// cut ends the connection.
func (l *commandServer) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.current.Close()
}

// learn changes its commandSupport.
func (l *commandServer) learn(d commandSupport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speaks, l.next = d, d
}

// releases is what it has heard since it was asked last.
func (l *commandServer) releases() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.heard
	l.heard = nil
	return all
}

// before is called before every command.
func (l *commandServer) before(peer *server.Peer, command string, args ...string) (answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := strings.Contains(strings.Join(args, " "), probeKey)
	switch {
	case command == "EVALSHA" && args[0] == script.Release.SHA && !asked:
		l.heard = append(l.heard, "EVALSHA "+args[1])
		if l.noKey != "" && strings.Contains(strings.Join(args, " "), l.noKey) {
			peer.WriteError("NOPERM No permissions to access a key")
			return true
		}
		return false
	case command != "DELEX" && command != "DELIFEQ":
		return false
	case !asked:
		l.heard = append(l.heard, command)
	}
	says, known := l.speaks[command]
	switch {
	case !known:
		peer.WriteError(fmt.Sprintf("ERR unknown command '%s', with args beginning with: '%s' ",
			command, args[0]))
	case says == does && command == "DELEX":
		return false
	case says == does:
		l.delIfEqual(peer, args[0], args[1])
	case says == hangsUp:
		l.speaks = l.next
		_ = l.current.Close()
	default:
		peer.WriteRaw(says)
	}
	return true
}

// delIfEqual does what Valkey's DELIFEQ does.
func (l *commandServer) delIfEqual(peer *server.Peer, key, value string) {
	was, err := l.redis.Get(key)
	switch {
	case !l.redis.Exists(key):
		peer.WriteInt(0)
	case err != nil:
		peer.WriteError("WRONGTYPE Operation against a key holding the wrong kind of value")
	case was != value:
		peer.WriteInt(0)
	default:
		l.redis.Del(key)
		peer.WriteInt(1)
	}
}

// let has the server keep n keys of that name for tokens of that name, and returns what releases
// them.
func (l *commandServer) let(t *testing.T, m *Mux, name string, n int) (attempts []*Attempt) {
	t.Helper()
	for i := range n {
		key := fmt.Sprint(name, i)
		require.NoError(t, l.redis.Set(key, key))
		attempts = append(attempts, m.newAttempt(claim(key, key), release, time.Minute, time.Second,
			time.Minute))
	}
	return attempts
}

// flushed makes one flush to the only node of m.
func flushed(m *Mux, attempts []*Attempt) []answer {
	answers := make([]answer, len(attempts))
	m.nodes[0].sendAttempts(attempts, answers)
	return answers
}

var done = answer{vote: granted, replied: true, keyIndex: -1}

func several[T any](n int, one T) (all []T) {
	for range n {
		all = append(all, one)
	}
	return all
}

package fake

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/lockpipe/lockpipe"
)

const (
	// anotherToken is what keys have that another holds.
	anotherToken = "another holder"
	// outOfMemory is what a server answers at maxmemory. It executes nothing then, and the
	// connection stays.
	outOfMemory = "OOM command not allowed when used memory > 'maxmemory'."
	// probeKeys is in the names of keys that are no locks: a Client sets them when it connects.
	probeKeys = "lockpipe:none:"
)

// node is one miniredis server without a socket: its connections are pipes, as bubbles of
// testing/synctest need them.
type node struct {
	addr    string // set once, as redis
	redis   *miniredis.Miniredis
	failing atomic.Bool // StopVotes
}

func startNode(addr string) (*node, error) {
	n := &node{addr: addr, redis: miniredis.NewMiniRedis()}
	n.redis.ClockTTL(true) // keys expire as time passes, also that of a bubble
	conn, err := n.redis.Dial()
	if err != nil {
		return nil, err
	}
	_ = conn.Close() // Dial has started the server, which is all that it was for
	n.redis.Server().SetPreHook(n.refuse)
	return n, nil
}

// refuse answers a command with an error if the node does not vote. It also sees the commands that
// scripts call, and lets them pass: what has begun is executed as a whole. Their peer never said
// HELLO 3, as each connection of a Client does.
func (n *node) refuse(peer *server.Peer, command string, args ...string) (answered bool) {
	if !n.failing.Load() || !peer.Resp3 {
		return false
	}
	if command != "SET" && command != "EVALSHA" || strings.Contains(args[0], probeKeys) {
		return false
	}
	peer.WriteError(outOfMemory)
	return true
}

func (n *node) hold(key string) {
	if err := n.redis.Set(key, anotherToken); err != nil {
		panic(fmt.Sprintf("fake: hold %q: %v", key, err)) // no client writes anything but strings
	}
}

func (n *node) free(key string) {
	if value, err := n.redis.Get(key); err == nil && value == anotherToken {
		n.redis.Del(key) // no call of a Client has taken it meanwhile: it was held
	}
}

// keeps reports whether the node votes, and still has a key of the lease.
func (n *node) keeps(prefix string, l *lockpipe.Lease) bool {
	return !n.failing.Load() && slices.ContainsFunc(l.Keys(), func(key string) bool {
		value, err := n.redis.Get(prefix + key)
		return err == nil && value == l.Token()
	})
}

// dial connects to the node of that address.
func (c *Client) dial(_ context.Context, _, addr string) (net.Conn, error) {
	for _, n := range c.nodes {
		if n.addr == addr {
			return n.redis.Dial()
		}
	}
	return nil, fmt.Errorf("fake: no node %s", addr)
}

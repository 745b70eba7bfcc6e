package fake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/memorynode"
)

const (
	// anotherToken is what keys have that another holds.
	anotherToken = "another holder"
	// outOfMemory is what a server answers at maxmemory. It executes nothing then, and the
	// connection stays.
	outOfMemory = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
	// companions is what the names of keys that are no locks begin with, behind the prefix. A
	// Client sets them when it connects.
	companions = "lockpipe:"
)

// node is a node in memory without a socket: its connections are pipes, as bubbles of
// testing/synctest need them.
type node struct {
	*memorynode.Node
	addr    string      // set once, as prefix
	prefix  string      // of all keys
	failing atomic.Bool // StopVotes
}

func startNode(addr, prefix string) *node {
	n := &node{Node: memorynode.New(rand.Int(), 1), addr: addr, prefix: prefix}
	n.Before = n.refuse
	return n
}

// refuse answers a command about locks with an error if the node does not vote.
func (n *node) refuse(args []string) (reply string) {
	if !n.failing.Load() || len(args) < 2 {
		return ""
	}
	key := ""
	switch {
	case args[0] == "SET":
		key = args[1]
	case args[0] == "EVALSHA" && len(args) > 3:
		key = args[3]
	default:
		return ""
	}
	if strings.HasPrefix(key, n.prefix+companions) {
		return ""
	}
	return outOfMemory
}

func (n *node) hold(key string) { n.Set(key, anotherToken) }

func (n *node) free(key string) {
	if value, _ := n.Get(key); value == anotherToken {
		n.Delete(key) // no call of a Client has taken it meanwhile: it was held
	}
}

// keeps reports whether the node votes, and still has a key of the lease.
func (n *node) keeps(prefix string, l *lockpipe.Lease) bool {
	return !n.failing.Load() && slices.ContainsFunc(l.Keys(), func(key string) bool {
		value, _ := n.Get(prefix + key)
		has, _ := ids.SplitValue(value)
		return has == l.Token()
	})
}

// dial connects to the node of that address.
func (c *Client) dial(_ context.Context, _, addr string) (net.Conn, error) {
	for _, n := range c.nodes {
		if n.addr == addr {
			return n.Dial(), nil
		}
	}
	return nil, fmt.Errorf("fake: no node %s", addr)
}

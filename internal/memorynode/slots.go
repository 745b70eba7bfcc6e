package memorynode

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Cluster is a Redis Cluster, as one of its servers knows it. Both methods are called while the
// node is locked.
type Cluster interface {
	// Nodes returns the reply to CLUSTER NODES.
	Nodes() string
	// Route says what the server does with commands for the keys that have this tag in braces.
	Route(tag string) Route
}

// Route is what a server does with commands for keys of one slot.
type Route struct {
	Refusal string // is its reply to all: MOVED or CLUSTERDOWN; "" if it has the slot
	Ask     string // is its reply about keys that it does not have, while the slot moves; else ""
}

// route makes the reply to a command for keys that the server does not have, or not all of them. It
// returns false if the command is to run.
func (s *Session) route(name string, args []string) (replied bool) {
	keys := keysOf(name, args)
	if len(keys) == 0 {
		return false
	}
	tag, missing := tagOf(keys[0]), 0
	for _, key := range keys {
		if tagOf(key) != tag {
			s.fail("CROSSSLOT Keys in request don't hash to the same slot")
			return true
		}
		if _, ok := s.node.entry(key); !ok {
			missing++
		}
	}
	switch to := s.node.Cluster.Route(tag); {
	case to.Refusal != "":
		s.fail(to.Refusal)
	case to.Ask == "" || missing == 0:
		return false
	case missing < len(keys):
		s.fail("TRYAGAIN Multiple keys request during rehashing of slot")
	default:
		s.fail(to.Ask)
	}
	return true
}

// tagOf returns the part of a key in braces.
func tagOf(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return tag
}

// keysOf returns the keys that a command names.
func keysOf(name string, args []string) []string {
	count := func(at int) int {
		n, _ := strconv.Atoi(args[at])
		return max(0, min(n, len(args)-at-1))
	}
	switch name {
	case "GET", "GETRANGE", "PTTL", "TTL", "TYPE", "SET", "SETNX", "PEXPIRE", "EXPIRE", "PERSIST",
		"DELIFEQ", "ZADD", "ZSCORE", "ZMSCORE", "ZCARD", "HGETALL":
		return args[1:2]
	case "MGET", "EXISTS", "DEL", "UNLINK":
		return args[1:]
	case "EVAL", "EVALSHA":
		return args[3 : 3+min(count(2), len(args)-3)]
	case "MSET":
		return everySecond(args[1:])
	case "MSETEX":
		return everySecond(args[2:min(len(args), 2+2*count(1))])
	}
	return nil
}

func everySecond(words []string) (all []string) {
	for pair := range slices.Chunk(words, 2) {
		all = append(all, pair[0])
	}
	return all
}

// cluster makes the reply to CLUSTER.
func (s *Session) cluster(args []string) {
	switch n := s.node; {
	case n.Cluster == nil:
		s.fail("ERR This instance has cluster support disabled")
	case len(args) == 2 && strings.EqualFold(args[1], "NODES"):
		s.text(n.Cluster.Nodes())
	default:
		s.fail("ERR unknown subcommand '" + printable(strings.Join(args[1:], " ")) + "'" + realServer)
	}
}

// mode returns what the node calls itself.
func (n *Node) mode() string {
	if n.Cluster != nil {
		return "cluster"
	}
	return "standalone"
}

// KeysOfTag returns the keys that have this tag in braces, in order.
func (n *Node) KeysOfTag(tag string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(n.live("*"), func(key string) bool { return tagOf(key) != tag })
}

// MoveKey moves a key to another server, as MIGRATE does.
func (n *Node) MoveKey(key string, to *Node) {
	n.mu.Lock()
	e, ok := n.entry(key)
	left := e.end - n.now()
	n.del(key)
	n.sendPushes(nil)
	n.mu.Unlock()
	if !ok {
		return
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if e.end != 0 {
		e.end = to.now() + left
	}
	to.put(key, e)
	to.sendPushes(nil)
}

// IsReplica reports whether the node is a replica.
func (n *Node) IsReplica() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replica
}

// Follow makes the node a replica that has these keys. Its connections stay. Who tracks a key that
// is another one now is told of that alone, as when a replica needs no full copy.
func (n *Node) Follow(keys Keys) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(n.trackers)) {
		before, had := n.keys[key]
		if now, has := keys[key]; had != has || before.value != now.value {
			n.invalidate(key)
		}
	}
	n.keys, n.sweepAt, n.replica = keys, 2*len(keys)+minSweep, true
	n.changes++
	n.sendPushes(nil)
}

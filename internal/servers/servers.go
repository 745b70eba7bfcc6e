// Package servers gives each server one vote, also if the names of several nodes lead to it.
package servers

import (
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// SameServerError is why a node is down whose server is another node's.
type SameServerError struct{ Other string }

// Error names the other node.
func (e *SameServerError) Error() string {
	return "is the same server as " + e.Other + ", and one server has one vote: give each node " +
		"a server of its own"
}

// Servers are the servers of all nodes of a client, in whatever group. The zero value is ready. All
// methods of its groups are safe for concurrent use.
type Servers struct {
	mu     sync.Mutex // guards all below, and what the groups say; a leaf
	groups []*Group
}

// Group says which server is which node's, in a group of nodes. One server has one vote. Extensions
// need that: the keys hold our own token, so one server would grant an extension once for each
// name. An acquire it would refuse the second time.
//
//  1. At any time one node at most has a connection to a server. The handshake takes the server for
//     the node. It is the node's until that connection is closed. If the server is quarantined, it
//     is the node's until that finds another server or none.
//  2. A server can become another node's, if names change. It may have granted an extension before,
//     as the other node. So a connection to a server that was not the node's last one carries only
//     extensions that begin later.
//  3. A server is known by its run_id, in whatever group it is. One that does not show it may be
//     any other of its group, until the client has told them apart: see Use.
type Group struct {
	names   []string // of the nodes
	servers *Servers // of this group and of others

	last []binding // of each node; guarded by Servers.mu
}

// binding is a node's last connection to a server.
type binding struct {
	runID string    // "" if the server does not show it, or has become another node's since
	since time.Time // when the node got the server
	// clientID is the server's number of the connection; "" if it does not show it, or was not
	// admitted.
	clientID    string
	conn        net.Conn // nil when it is closed
	inUse       bool     // commands can go over it
	quarantined bool     // it was closed because the server is quarantined, which stays the node's
	// ended is when a connection of the node that was in use was closed.
	ended time.Time
}

// Group adds a group of nodes with these names.
func (s *Servers) Group(names []string) *Group {
	g := &Group{names: names, servers: s, last: make([]binding, len(names))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, g)
	return g
}

// identity is a run_id if it can be taken for one: compatible servers and proxies may show
// something that is not unique.
func identity(runID string) string {
	if len(runID) != 40 || strings.Trim(runID, "0123456789abcdef") != "" ||
		strings.Trim(runID, runID[:1]) == "" {
		return ""
	}
	return runID
}

// Take makes a server the node's while conn is open. The error is a *SameServerError: another node
// has it. since is when the node got the server, if the last one may have been another; without a
// run_id ToldApart returns it later. previousID is the client ID of this client's last connection
// there.
func (g *Group) Take(runID string, node int, conn net.Conn) (since time.Time, previousID string,
	err error,
) {
	runID = identity(runID)
	g.servers.mu.Lock()
	defer g.servers.mu.Unlock()
	own := &g.last[node]
	switch {
	case runID == "": // see ToldApart
	case own.runID == runID:
		since, previousID = own.since, own.clientID
	default:
		since = time.Now()
	}
	for _, group := range g.servers.groups {
		for i := range group.last {
			other := &group.last[i]
			switch {
			case other == own || runID == "" || other.runID != runID:
			case other.conn != nil || other.quarantined:
				return time.Time{}, "", &SameServerError{group.names[i]}
			default:
				previousID = other.clientID
				other.runID, other.clientID = "", ""
			}
		}
	}
	*own = binding{runID: runID, since: since, clientID: previousID, conn: conn, ended: own.ended}
	return since, previousID, nil
}

// Admitted records the server's number of a connection that was admitted.
func (g *Group) Admitted(conn net.Conn, clientID string) {
	g.of(conn, func(own *binding, _ int) { own.clientID = clientID })
}

// Outlasts lets the node keep the server of a connection after its end, because the server is
// quarantined.
func (g *Group) Outlasts(conn net.Conn) {
	g.of(conn, func(own *binding, _ int) { own.quarantined = true })
}

// Closed records that a connection is closed.
func (g *Group) Closed(conn net.Conn) {
	g.of(conn, func(own *binding, _ int) {
		if own.inUse {
			own.ended = time.Now()
		}
		own.conn, own.inUse = nil, false
	})
}

// Use records that commands can go over a connection. It returns the nodes whose connections were
// in use before, and whose servers may be the same one because a run_id is missing.
func (g *Group) Use(conn net.Conn) (others []int) {
	g.of(conn, func(own *binding, node int) {
		own.inUse = true
		for i, other := range g.last {
			if i != node && other.inUse && (other.runID == "" || own.runID == "") {
				others = append(others, i)
			}
		}
	})
	return others
}

// ToldApart returns when the node got the server of a connection at the latest, if the server may
// be one that another node had. since is what Take returned. The client calls it when it has told
// the servers apart: until then another node may lose the connection by which it would be known.
func (g *Group) ToldApart(conn net.Conn, since time.Time) time.Time {
	g.of(conn, func(own *binding, node int) {
		for i, other := range g.last {
			if i != node && (other.runID == "" || own.runID == "") && other.ended.After(since) {
				since = other.ended
			}
		}
		own.since = since
	})
	return since
}

// of calls f for the binding of an open connection, and holds Servers.mu.
func (g *Group) of(conn net.Conn, f func(own *binding, node int)) {
	g.servers.mu.Lock()
	defer g.servers.mu.Unlock()
	same := func(own binding) bool { return own.conn == conn }
	if i := slices.IndexFunc(g.last, same); i >= 0 {
		f(&g.last[i], i)
	}
}

// GiveUp says that a node, whose server was quarantined, finds no server now.
func (g *Group) GiveUp(node int) {
	g.servers.mu.Lock()
	defer g.servers.mu.Unlock()
	g.last[node].quarantined = false
}

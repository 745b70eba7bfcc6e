package restartguard

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

// claims gives each server one vote, also if the names of several nodes lead to it. Extensions need
// that: the keys hold our own token, so one server would grant an extension once for each name. An
// acquire it would refuse the second time.
//
//  1. At any time one node at most has a connection to a server. The handshake claims the server
//     for the node. The claim ends when that connection is closed. If the server is quarantined,
//     the claim ends when the node finds another server or none.
//  2. A server can become another node's, if names change. It may have granted an extension before,
//     as the other node. So a connection to a server that was not the node's last one carries only
//     extensions that begin later.
//  3. A server is known by its run_id, in whatever group it is. One that does not show it may be
//     any other of its group, until the client has told them apart: see Guard.InUse.
type claims struct {
	names   []string // of the nodes
	servers *Servers // which has these claims, and those of other groups

	mu   sync.Locker // of Servers; guards all below
	last []claim     // of each node
}

// claim is a node's last connection to a server.
type claim struct {
	runID string    // "" if the server does not show it, or has become another node's since
	since time.Time // when the node got the server
	// clientID is the server's number of the connection; "" if it does not show it, or was not
	// admitted.
	clientID    string
	conn        net.Conn // nil when it is closed
	inUse       bool     // commands can go over it
	quarantined bool     // it was closed because the server is quarantined, and the claim lasts
	// ended is when a connection of the node that was in use was closed.
	ended time.Time
}

func newClaims(names []string, servers *Servers) *claims {
	c := &claims{
		names: names, servers: servers, mu: &servers.mu, last: make([]claim, len(names)),
	}
	servers.mu.Lock()
	defer servers.mu.Unlock()
	servers.of = append(servers.of, c)
	return c
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

// take makes a server the node's while conn is open. The error is that another node has it. since
// is when the node got the server, if the last one may have been another; without a run_id
// toldApart returns it later. previousID is the client ID of this client's last connection there.
func (c *claims) take(runID string, node int, conn net.Conn) (since time.Time, previousID string,
	err error,
) {
	runID = identity(runID)
	c.mu.Lock()
	defer c.mu.Unlock()
	own := &c.last[node]
	switch {
	case runID == "": // see toldApart
	case own.runID == runID:
		since, previousID = own.since, own.clientID
	default:
		since = time.Now()
	}
	for _, group := range c.servers.of {
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
	*own = claim{runID: runID, since: since, clientID: previousID, conn: conn, ended: own.ended}
	return since, previousID, nil
}

// admitted records the server's number of a connection that was admitted.
func (c *claims) admitted(conn net.Conn, clientID string) {
	c.of(conn, func(own *claim, _ int) { own.clientID = clientID })
}

// outlasts lets the claim of a connection last after its end, because the server is quarantined.
func (c *claims) outlasts(conn net.Conn) {
	c.of(conn, func(own *claim, _ int) { own.quarantined = true })
}

// closed records that a connection is closed.
func (c *claims) closed(conn net.Conn) {
	c.of(conn, func(own *claim, _ int) {
		if own.inUse {
			own.ended = time.Now()
		}
		own.conn, own.inUse = nil, false
	})
}

// use records that commands can go over a connection. It returns the nodes whose connections were
// in use before, and whose servers may be the same one because a run_id is missing.
func (c *claims) use(conn net.Conn) (others []int) {
	c.of(conn, func(own *claim, node int) {
		own.inUse = true
		for i, other := range c.last {
			if i != node && other.inUse && (other.runID == "" || own.runID == "") {
				others = append(others, i)
			}
		}
	})
	return others
}

// toldApart returns when the node got the server of a connection at the latest, if the server may
// be one that another node had. since is what take returned. The client calls it when it has told
// the servers apart: until then another node may lose the connection by which it would be known.
func (c *claims) toldApart(conn net.Conn, since time.Time) time.Time {
	c.of(conn, func(own *claim, node int) {
		for i, other := range c.last {
			if i != node && (other.runID == "" || own.runID == "") && other.ended.After(since) {
				since = other.ended
			}
		}
		own.since = since
	})
	return since
}

// of calls f for the claim of an open connection, and holds mu.
func (c *claims) of(conn net.Conn, f func(own *claim, node int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := func(own claim) bool { return own.conn == conn }
	if i := slices.IndexFunc(c.last, same); i >= 0 {
		f(&c.last[i], i)
	}
}

// giveUp ends the claim of a node whose server was quarantined, and that finds no server now.
func (c *claims) giveUp(node int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[node].quarantined = false
}

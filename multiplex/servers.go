package multiplex

import (
	"errors"
	"strings"
	"sync"
	"time"
)

// errMoved is the vote of a node whose server may have granted the extension already, as another
// node.
var errMoved = errors.New("not sent: the node's server changed since the extension began")

// sameServerError is why a node is down whose server is another node's.
type sameServerError struct{ other string }

func (e *sameServerError) Error() string {
	return "is the same server as " + e.other + ", and one server has one vote: give each node " +
		"a server of its own"
}

// servers gives each server one vote, also if the names of several nodes lead to it. Extensions
// need that: the keys hold our own token, so one server would grant an extension once for each
// name. An acquire it would refuse the second time.
//
//  1. At any time one node at most has a connection to a server. The handshake claims the server
//     for the node. The claim ends when that connection is closed; if the server is quarantined,
//     when the node finds another server or none.
//  2. A server can become another node's, if names change. It may have granted an extension before,
//     as the other node. So a connection to a server that was not the node's last one carries only
//     extensions that begin later.
//  3. A server is known by its run_id. One that does not tell it may be any other: see
//     node.tellApart.
//
// What lost: to count the votes of an attempt by server. Each attempt would have to remember its
// nodes' servers, for something that happens when names change.
type servers struct {
	names []string // of the nodes

	mu   sync.Mutex    // guards all below; a leaf
	last []serverClaim // of each node
}

// serverClaim is a node's last connection to a server.
type serverClaim struct {
	runID   string    // "" if the server does not tell, or has become another node's since
	changed time.Time // when the node got the server
	// The server's number of the connection; "" if it does not tell, or was not admitted.
	client string
	line   *nodeConn // nil when it is closed
	ready  bool      // commands can go over it
	waits  bool      // it was closed because the server is quarantined, and the claim lasts
	// ended is when a connection of the node that was ready was closed.
	ended time.Time
}

func newServers(endpoints []endpoint) *servers {
	s := &servers{last: make([]serverClaim, len(endpoints))}
	for _, e := range endpoints {
		s.names = append(s.names, e.name)
	}
	return s
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

// claim makes a server the node's while l is open. The error is that another node has it. changed
// is when the node got the server, if the last one may have been another; without a run_id apart
// tells it later. former is the client number of this Mux's last connection there.
func (s *servers) claim(runID string, node int, l *nodeConn) (changed time.Time, former string,
	err error,
) {
	runID = identity(runID)
	s.mu.Lock()
	defer s.mu.Unlock()
	own := &s.last[node]
	switch {
	case runID == "": // see apart
	case own.runID == runID:
		changed, former = own.changed, own.client
	default:
		changed = time.Now()
	}
	for i := range s.last {
		c := &s.last[i]
		switch {
		case i == node || runID == "" || c.runID != runID:
		case c.line != nil || c.waits:
			return time.Time{}, "", &sameServerError{s.names[i]}
		default:
			former = c.client
			c.runID, c.client = "", ""
		}
	}
	*own = serverClaim{runID: runID, changed: changed, client: former, line: l, ended: own.ended}
	return changed, former, nil
}

// admitted notes the server's number of a connection that was admitted.
func (s *servers) admitted(l *nodeConn, client string) {
	s.of(l, func(c *serverClaim, _ int) { c.client = client })
}

// quarantined lets the claim of a connection last after its end.
func (s *servers) quarantined(l *nodeConn) {
	s.of(l, func(c *serverClaim, _ int) { c.waits = true })
}

// close notes that a connection is closed.
func (s *servers) close(l *nodeConn) {
	s.of(l, func(c *serverClaim, _ int) {
		if c.ready {
			c.ended = time.Now()
		}
		c.line, c.ready = nil, false
	})
}

// ready notes that commands can go over a connection. It returns the nodes whose connections were
// ready before, and whose servers may be the same one because a run_id is missing.
func (s *servers) ready(l *nodeConn) (others []int) {
	s.of(l, func(own *serverClaim, node int) {
		own.ready = true
		for i, c := range s.last {
			if i != node && c.ready && (c.runID == "" || own.runID == "") {
				others = append(others, i)
			}
		}
	})
	return others
}

// apart is when the node got the server of l at the latest, if the server may be one that another
// node had. It is asked when the servers were told apart: until then another node may lose the
// connection by which it would be known.
func (s *servers) apart(l *nodeConn) (changed time.Time) {
	changed = l.movedAt
	s.of(l, func(own *serverClaim, node int) {
		for i, c := range s.last {
			if i != node && (c.runID == "" || own.runID == "") && c.ended.After(changed) {
				changed = c.ended
			}
		}
		own.changed = changed
	})
	return changed
}

// of calls f for the claim of an open connection.
func (s *servers) of(l *nodeConn, f func(c *serverClaim, node int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.last {
		if s.last[i].line == l {
			f(&s.last[i], i)
		}
	}
}

// leave ends the claim of a node whose server was quarantined, and that finds no server now.
func (s *servers) leave(node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[node].waits = false
}

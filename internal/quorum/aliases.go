package quorum

import (
	"strings"
	"sync"
	"sync/atomic"
)

// SameServerError is why a node has no vote whose server is another node's too. Slot: both are
// slots of a Redis Cluster.
type SameServerError struct {
	Other string
	Slot  bool
}

// Error names the other node, and says what to do.
func (e *SameServerError) Error() string {
	if e.Slot {
		return "is on the server of " + e.Other + ", and one server has one vote: move one of the " +
			"slots to another master (CLUSTER SETSLOT, MIGRATE), or add a master"
	}
	return "is the same server as " + e.Other + ", and one server has one vote: give each node " +
		"a server of its own"
}

// Aliases knows which nodes lead to one server, and what the answers of such nodes mean. The zero
// value is ready. All methods are safe for concurrent use.
//
// Of slots of a Redis Cluster each has keys of its own, and grants: see System.CountOnce. All other
// such nodes have one vote without it, because the value of a key says which node it is for: see
// package token. But the same answers say less than those of nodes with servers of their own:
//
//   - A refusal may be by the attempt's own token, which the server has under another name. So the
//     server has refused when it has refused all its names. Until then each refusal is an unknown
//     vote, for a SameServerError.
//   - That a name has nothing to delete confirms no release. So a name has confirmed when all names
//     of its server have.
//
// A server is known by the run_id that it shows. Without one, a refusal by the own token counts as
// one by another's: an attempt may be called held that has no quorum. And a release may be
// confirmed a moment before the server has executed it. Neither breaks exclusion.
type Aliases struct {
	mu     sync.Mutex       // guards runIDs; a leaf
	runIDs [MaxNodes]string // of each node's last server; "": not known
	isSlot Nodes
	names  atomic.Pointer[Names] // of nodes that are no slots
	slots  atomic.Pointer[Names] // of those that are
}

// Set records which server node i is connected to: "" if it does not show its run_id. slot: the
// node is one in a Redis Cluster, always. A node that loses its connection keeps the server until
// it has another one, which may be the same.
func (a *Aliases) Set(i int, runID string, slot bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if runID = Identity(runID); a.runIDs[i] == runID {
		return
	}
	a.runIDs[i] = runID
	if slot {
		a.isSlot |= Node(i)
	}
	var names *Names
	for i, own := range a.runIDs {
		for j, other := range a.runIDs {
			if i == j || own == "" || own != other || a.isSlot.Has(i) != slot ||
				a.isSlot.Has(j) != slot {
				continue
			}
			if names == nil {
				names = new(Names)
			}
			names[i] |= Node(j)
		}
	}
	if slot {
		a.slots.Store(names)
	} else {
		a.names.Store(names)
	}
}

// Identity is a run_id if it can be taken for one: compatible servers and proxies may show
// something that is not unique.
func Identity(runID string) string {
	if len(runID) != 40 || strings.Trim(runID, "0123456789abcdef") != "" ||
		strings.Trim(runID, runID[:1]) == "" {
		return ""
	}
	return runID
}

// Names returns which nodes lead to one server, without slots of a Redis Cluster.
func (a *Aliases) Names() *Names { return a.names.Load() }

// Slots returns which slots of a Redis Cluster are on one server.
func (a *Aliases) Slots() *Names { return a.slots.Load() }

// Names has for each node the others that lead to its server. nil: each has a server of its own.
type Names [MaxNodes]Nodes

// Others returns the other nodes that lead to the server of node i.
func (n *Names) Others(i int) Nodes {
	if n == nil {
		return 0
	}
	return n[i]
}

// Unconfirmed returns those of the nodes in free, which have confirmed a release or need not, that
// have no vote: their servers have other names, of the nodes in all, that have not confirmed it.
// unknown are those of them whose votes are unknown, because such a name is in unanswerable.
func (n *Names) Unconfirmed(all, free, unanswerable Nodes) (nodes, unknown Nodes) {
	for s := free; n != nil && s != 0; s &= s - 1 {
		i := s.Lowest()
		missing := n[i] & all &^ free
		if missing != 0 {
			nodes |= Node(i)
		}
		if missing&unanswerable != 0 {
			unknown |= Node(i)
		}
	}
	return nodes, unknown
}

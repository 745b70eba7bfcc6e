package restartguard

import (
	"log/slog"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servers"
)

// Peers is what the guards of one client's nodes share.
type Peers struct {
	names       []string // of the nodes; does not change
	firstUse    *firstUse
	servers     *servers.Group
	generations *generations

	mu sync.Mutex // guards what firstUse and generations say; a leaf
}

// NewPeers returns the Peers of nodes with these names. There are 64 of them at most. A lease has a
// quorum of one of the sets, or of several. If a node is in no set, nobody can vouch for it: after
// a restart with its disk it waits like one that has lost something. all are the servers of all
// nodes of the client; nil: there are no other nodes.
func NewPeers(names []string, sets []quorum.Nodes, all *servers.Servers) *Peers {
	if all == nil {
		all = new(servers.Servers)
	}
	p := &Peers{names: names, servers: all.Group(names)}
	p.firstUse = newFirstUse(len(names), &p.mu)
	p.generations = newGenerations(len(names), sets, &p.mu)
	return p
}

// Config describes one node to its Guard.
type Config struct {
	// Node is the node's number.
	Node int
	// Name is the node's address in the log.
	Name string
	// Marker and Generations are the guard's keys on the node. Without a Marker the guard is off:
	// then every server is admitted, and these keys are neither read nor written.
	Marker, Generations string
	// Strict: a first use waits like a loss, and a server without a run_id is refused.
	Strict bool
	// MaxTTL is how long a quarantine lasts.
	MaxTTL time.Duration
	// ConnectTimeout is how long one connect may take, also of another client.
	ConnectTimeout time.Duration
	// Replicated: the node is a master with replicas, and one of them may have voted in its place.
	Replicated bool
	// RenewSoon lets the client call Renew soon. It must not block.
	RenewSoon func()
	// OnAdmit is called on a connection to a server that is about to be admitted. Its error is why
	// it is not, for example a *Quarantine. It may be nil.
	OnAdmit func(c *resp.Conn) error
	Logger  *slog.Logger
}

// MayBeFirstUse reports whether the nodes may still turn out to be used for the first time.
func (p *Peers) MayBeFirstUse() bool { return p.firstUse.isPossible() }

// Guard returns the guard of one node. All guards are made before one of them is used.
func (p *Peers) Guard(c Config) *Guard {
	p.generations.renewSoon[c.Node] = c.RenewSoon
	return &Guard{config: c, peers: p}
}

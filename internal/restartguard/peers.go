package restartguard

import (
	"log/slog"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Peers is what the guards of one client's nodes share.
type Peers struct {
	names       []string   // of the nodes; does not change
	mu          sync.Mutex // guards what the three below say; a leaf
	firstUse    *firstUse
	claims      *claims
	generations *generations
}

// NewPeers returns the Peers of nodes with these names, of which quorum are a quorum. There are 64
// of them at most.
func NewPeers(names []string, quorum int) *Peers {
	p := &Peers{names: names}
	p.firstUse = newFirstUse(len(names), &p.mu)
	p.claims = newClaims(names, &p.mu)
	p.generations = newGenerations(len(names), quorum, &p.mu)
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

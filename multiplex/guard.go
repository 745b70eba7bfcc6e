package multiplex

import (
	"fmt"

	"github.com/lockpipe/lockpipe/internal/restartguard"
)

// GuardMode is what the restart guard does. Locks live in the masters' memory, so one that comes
// back without it must not vote until every lock that it may have lost has expired.
type GuardMode int

const (
	// GuardAuto: a node votes only when a key on it, the marker, shows that it has lost nothing
	// since it was admitted, or when the longest TTL has passed. When no node has a marker and all
	// of them answer, that is taken for the first use, and they are admitted at once. A server that
	// has no run_id to compare is admitted with a warning.
	GuardAuto GuardMode = iota
	// GuardStrict is GuardAuto without these two exceptions: also before the first use the longest
	// TTL passes, and a server without a run_id is down.
	GuardStrict
	// GuardOff: every server votes at once. The marker is neither read nor written.
	GuardOff
)

// String returns the mode as one lower-case word.
func (g GuardMode) String() string {
	switch g {
	case GuardAuto:
		return "auto"
	case GuardStrict:
		return "strict"
	case GuardOff:
		return "off"
	}
	return fmt.Sprintf("GuardMode(%d)", int(g))
}

// newPeers returns what the guards of these nodes share.
func newPeers(endpoints []endpoint) *restartguard.Peers {
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.name
	}
	return restartguard.NewPeers(names, quorum(len(names)))
}

// newGuard returns the restart guard of a node.
func (n *node) newGuard() *restartguard.Guard {
	cfg := &n.mux.cfg
	c := restartguard.Config{
		Node: n.index, Name: n.addr, Strict: cfg.Guard == GuardStrict, MaxTTL: cfg.MaxTTL,
		ConnectTimeout: connectTimeout, Replicated: n.endpoint.masterSet != "",
		RenewSoon: func() { notify(n.renewSoon) }, Logger: cfg.Logger,
	}
	if c.Replicated {
		c.MaxTTL += deposedFor
	}
	if cfg.Guard != GuardOff {
		c.Marker, c.Generations = cfg.Prefix+markerKey, cfg.Prefix+generationsKey
	}
	return n.mux.peers.Guard(c)
}

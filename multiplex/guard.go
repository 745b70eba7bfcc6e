package multiplex

import (
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// GuardMode is what the restart guard does.
type GuardMode = guard.Mode

// The modes of the restart guard: see guard.Mode.
const (
	GuardAuto   = guard.Auto
	GuardStrict = guard.Strict
	GuardOff    = guard.Off
)

// newPeers returns the state that the guards of these nodes share. Claims need quorums of these
// systems.
func newPeers(endpoints []*endpoint.Endpoint, systems [][]quorum.Nodes) *guard.Peers {
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.Name
	}
	return guard.NewPeers(names, quorum.Distinct(systems...))
}

package multiplex

import (
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/internal/servers"
)

// GuardMode is what the restart guard does.
type GuardMode = restartguard.Mode

// The modes of the restart guard: see restartguard.Mode.
const (
	GuardAuto   = restartguard.Auto
	GuardStrict = restartguard.Strict
	GuardOff    = restartguard.Off
)

// Servers are the servers of several Muxes: see servers.Servers.
type Servers = servers.Servers

// newPeers returns the state that the guards of these nodes share. Claims need quorums of these
// systems.
func newPeers(endpoints []*endpoint.Endpoint, systems [][]quorum.Nodes,
	all *Servers,
) *restartguard.Peers {
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.Name
	}
	return restartguard.NewPeers(names, quorum.Distinct(systems...), all)
}

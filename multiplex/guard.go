package multiplex

import (
	"slices"

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

// newPeers returns what the guards of these nodes share, of which claims need these quorums.
func newPeers(endpoints []*endpoint.Endpoint, systems []quorum.System,
	all *Servers,
) *restartguard.Peers {
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.Name
	}
	var sets []quorum.Nodes
	for i := range systems {
		for _, set := range systems[i].Sets() {
			if !slices.Contains(sets, set) {
				sets = append(sets, set)
			}
		}
	}
	return restartguard.NewPeers(names, sets, all)
}

package multiplex

import (
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/restartguard"
)

// GuardMode is what the restart guard does.
type GuardMode = restartguard.Mode

// The modes of the restart guard: see restartguard.Mode.
const (
	GuardAuto   = restartguard.Auto
	GuardStrict = restartguard.Strict
	GuardOff    = restartguard.Off
)

// newPeers returns what the guards of these nodes share.
func newPeers(endpoints []*endpoint.Endpoint) *restartguard.Peers {
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.Name
	}
	return restartguard.NewPeers(names, quorum(len(names)))
}

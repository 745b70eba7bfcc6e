package multiplex

import (
	"cmp"
	"slices"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/link"
)

// Arbiter chooses the node that has the line for a key, given with its prefix. It is the
// node with the highest rendezvous weight for the key, of those that are connected. If that one was
// of no use, it is one of the next: skip is how many to leave out. nil: none is connected. The
// choice depends on the key and the nodes' addresses. So all contenders choose the same node,
// whatever the order of their configuration.
//
// system is that of the claims, by its index in Config.Systems, and set is one of its sets, by its
// index. So contenders that share a set choose the same node, whatever other set they need.
func (m *Mux) Arbiter(system uint8, set int, key string, skip int) *line.Node {
	var up []int
	for s := m.systems[system].Sets()[set]; s != 0; s &= s - 1 {
		if i := s.Lowest(); m.nodes[i].Link.State() == link.Up {
			up = append(up, i)
		}
	}
	if len(up) == 0 {
		return nil
	}
	slices.SortFunc(up, func(i, j int) int {
		return cmp.Compare(ids.Weight(key, m.nodes[j].Link.Name()),
			ids.Weight(key, m.nodes[i].Link.Name()))
	})
	return m.Line(up[skip%len(up)])
}

package preflight

import (
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/internal/inspection"
	"github.com/lockpipe/lockpipe/internal/link"
)

// checkState reports a node that has no vote, or could not be asked. all are the facts of all
// nodes.
func (f *findings) checkState(node *inspection.Facts, all []inspection.Facts) {
	why, state := node.StateErr, node.State
	switch {
	case node.Err != nil && isVoting(node) && !strings.HasPrefix(node.Err.Error(), "no answer "):
		f.errorf("takes no new connection (%v), so it has no vote when it loses the present "+
			"one: %s", node.Err, remedy(node.Err))
	case node.Err != nil:
		f.errorf("can't be used and has no vote (%v): %s", node.Err, remedy(node.Err))
	case state == link.Quarantined:
		f.errorf("has no vote: %v", why)
	case state == link.Failing:
		f.errorf("is failing, and grants no locks (%v): %s", why, remedy(why))
	case state == link.Connecting:
		f.warnf("answers, but has no vote before the client is connected")
	case state == link.Down && !explained(node, all):
		f.errorf("answers, but can't be used and has no vote (%v): %s", why, remedy(why))
	}
}

// isVoting reports whether the client has a connection to the node over which it votes.
func isVoting(node *inspection.Facts) bool { return node.State == link.Up }

// explained reports whether other findings say why the node is down.
func explained(node *inspection.Facts, all []inspection.Facts) bool {
	return node.Cluster || node.Sentinel || !newEnough(node.RedisVersion) ||
		slices.ContainsFunc(all, func(other inspection.Facts) bool {
			return other.Node != node.Node && sameServer(node, &other)
		})
}

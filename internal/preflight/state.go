package preflight

import (
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/multiplex"
)

// checkState reports a node that has no vote, or could not be asked. all are the facts of all
// nodes.
func (f *findings) checkState(node *multiplex.Facts, all []multiplex.Facts) {
	why, state := node.StateErr, node.State
	switch {
	case node.Err != nil && isVoting(node) && !strings.HasPrefix(node.Err.Error(), "no answer "):
		f.errorf("takes no new connection (%v), so it has no vote when it loses the present "+
			"one: %s", node.Err, remedy(node.Err))
	case node.Err != nil:
		f.errorf("can't be used and has no vote (%v): %s", node.Err, remedy(node.Err))
	case state == multiplex.NodeQuarantined:
		f.errorf("has no vote: %v", why)
	case state == multiplex.NodeFailing:
		f.errorf("is failing, and grants no locks (%v): %s", why, remedy(why))
	case state == multiplex.NodeConnecting:
		f.warnf("answers, but has no vote before the client is connected")
	case state == multiplex.NodeDown && !explained(node, all):
		f.errorf("answers, but can't be used and has no vote (%v): %s", why, remedy(why))
	}
}

// isVoting reports whether the client has a connection to the node over which it votes.
func isVoting(node *multiplex.Facts) bool { return node.State == multiplex.NodeUp }

// explained reports whether other findings say why the node is down.
func explained(node *multiplex.Facts, all []multiplex.Facts) bool {
	return node.Cluster || node.Sentinel || !newEnough(node.RedisVersion) ||
		slices.ContainsFunc(all, func(other multiplex.Facts) bool {
			return other.Node != node.Node && sameServer(node, &other)
		})
}

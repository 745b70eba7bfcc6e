package preflight

import (
	"errors"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// checkState reports a node that has no vote, or could not be asked. all are all nodes.
func (f *findings) checkState(node *Facts, all []Facts) {
	if node.Err != nil {
		f.checkError(node)
		return
	}
	if node.Status == nil {
		return
	}
	switch why := node.StateErr; {
	case node.State == link.Quarantined:
		f.errorf("has no vote: %v", why)
	case node.State == link.Failing:
		f.errorf("is failing, and grants no locks (%v): %s", why, remedy(why))
	case node.State == link.Connecting:
		f.warnf("answers, but has no vote before the client is connected")
	case node.State == link.Down && !explained(node, all):
		f.errorf("answers, but can't be used and has no vote (%v): %s", why, remedy(why))
	}
}

// checkError reports a node that could not be asked.
func (f *findings) checkError(node *Facts) {
	why := node.Err
	if node.isVoting() && !strings.HasPrefix(why.Error(), "no answer ") {
		f.errorf("takes no new connection (%v), so it has no vote when it loses the present "+
			"one: %s", why, remedy(why))
		return
	}
	if node.Status != nil && errors.Is(why, resp.ErrUnanswered) &&
		errors.Is(node.StateErr, resp.ErrUnanswered) {
		why = node.StateErr // it may have advice about TLS
	}
	f.errorf("can't be used and has no vote (%v): %s", why, remedy(why))
}

// explained reports whether other findings say why the node is down.
func explained(node *Facts, all []Facts) bool {
	return node.isCluster() || node.isSentinel() || !newEnough(node.Info["redis_version"]) ||
		slices.ContainsFunc(all, func(other Facts) bool {
			return other.Node != node.Node && sameServer(node, &other)
		})
}

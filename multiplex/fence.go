package multiplex

import (
	"errors"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Fence has the claim ask for the numbers from first to last, above 0 and up to ids.MaxFence, in
// addition to its keys. A node grants only if it knows no number of the keys that is not below
// first. Then it knows last: see node's commands. Fence comes after Init, and before the only
// attempt to acquire. The caller counts the validity of that attempt from before it took the
// numbers. So no lease begins long after the time that its numbers stand for, however long the
// process is paused in between.
//
// So the numbers of a lease are above those of every earlier lease on one of its keys. Let a lease
// be granted by a quorum and end, and let another be granted by a quorum after that. Some node is
// in both quorums. If the leases need quorums of several sets, this holds for a set of both.
//
// That node has taken the keys for the first lease before it took them for the second. Suppose it
// had been the other way round. Then the second's key had to be gone there before the node granted
// the first. Validity counts from before an attempt is sent, so the second lease would have ended
// before the first began.
//
// And the node has raised the first lease's number before the second's. Suppose that the first's
// came behind. It came behind the command that took the second lease's keys, so the first lease's
// keys were gone. Then the first lease had ended before this vote arrived, and it does not count.
// So the second number was raised from the first, or from more.
//
// That ends when a node forgets its numbers. Then a lower fence is possible only if each node in
// both quorums forgot. The restart guard lets a node that forgot vote after MaxTTL, and the numbers
// follow the wall clocks of the clients.
func (c *Claim) Fence(first, last int64) { c.keys.SetFence(first, last) }

// Fences returns the numbers that the claim asked for; 0 without a fence.
func (c *Claim) Fences() (first, last int64) {
	if f := c.keys.Fence(); f != nil {
		return f.Numbers[0], f.Numbers[1]
	}
	return 0, 0
}

// FenceTooLow explains, after Wait, an acquire with a fence. seen is the highest fence that a node
// has answered with, and that a new one can exceed; 0 if there is none. If the attempt failed, or
// may have failed, because its fence was too low, again is true: try one above seen.
func (a *Attempt) FenceTooLow() (seen int64, again bool) {
	if a.claim.keys.Fence() == nil {
		return 0, false
	}
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	a.count()
	var behind quorum.Nodes
	hopeful := a.granted | a.open()
	for s := a.unknown; s != 0; s &= s - 1 {
		i := s.Lowest()
		var e *node.FenceTooLowError
		switch err := a.detail(i).err; {
		case errors.As(err, &e) && e.Seen < ids.MaxFence:
			behind |= quorum.Node(i)
			seen = max(seen, e.Seen)
		case err == node.ErrSuperseded: // by the release
			hopeful |= quorum.Node(i)
		}
	}
	again = a.decision == quorum.NoQuorum && behind != 0 && a.system().IsQuorum(behind|hopeful)
	return seen, again
}

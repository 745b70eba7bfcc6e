package multiplex

import (
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Outcome is what became of an attempt, as plain values. The zero value says nothing.
type Outcome struct {
	Result Result
	// Ended is ctx's error if ctx ended before the decision.
	Ended error

	// Keys are the keys that were found held, without the prefix, each once. Nodes are the
	// addresses of the nodes that refused, in configuration order. Both are for Held. For NoQuorum,
	// package parts says a key of the part that has none.
	Keys, Nodes []string

	// Need is how many nodes had to grant. Granted, Refused and Unknown add up to the number of
	// nodes. These and NoVotes are for NoQuorum. If a claim needs a quorum of several sets of
	// nodes, they are those of the first set that has none.
	Need, Granted, Refused, Unknown int
	Did                             string // what those did that count as Granted; "": they granted
	// NoVotes has each node whose vote is unknown, and why, in configuration order.
	NoVotes []holders.Node
}

// Result is how an attempt ended.
type Result int

const (
	// Won: a quorum granted, of each set of the claim's quorum system.
	Won Result = iota + 1
	// Held: so many nodes refused that a quorum is impossible, of some set, because another token
	// holds a key. After an extension the lease is lost. After a release it was lost before: too
	// few nodes had its keys.
	Held
	// NoQuorum: too few nodes granted, for other reasons than Held. What an acquire may have left
	// is being deleted.
	NoQuorum
)

// NotAwaited is why a node has no vote for whose answer nobody waited.
type NotAwaited string

// Error is the text.
func (e NotAwaited) Error() string { return string(e) }

const (
	errDecided    NotAwaited = "answer not needed: already decided"
	errCallerGone NotAwaited = "no answer before the context ended"
)

// outcome returns the decision; ended is why ctx ended the wait, if it did. Votes that are still
// open count as unknown from now on, but for a release they stay open. claim.mu is held.
func (a *Attempt) outcome(ended error) Outcome {
	a.tryDecide()
	d, missing, silent := a.decision, error(errDecided), a.open()
	if d == quorum.Undecided {
		silent = a.missUnsealed()
		missing = &holders.TimeoutError{
			Timeout: a.timeout, Late: a.mux.lookout.late(a.op.Sent),
		}
		if ended != nil {
			missing = errCallerGone
		} else {
			a.countTimeouts()
		}
		if a.op.Kind == node.Release {
			d = a.decideWith(a.unknown | silent)
		} else {
			a.voteUnknown(silent, missing)
			d = a.decision
		}
	}
	a.claim.mayOutlive = a.claim.mayOutlive || a.op.Kind == node.Extend && d != quorum.Won
	var o Outcome
	switch d {
	case quorum.Won:
		return Outcome{Result: Won}
	case quorum.Held:
		o = a.heldOutcome()
	default:
		o = a.noQuorum(silent, missing)
	}
	o.Ended = ended
	return o
}

// missUnsealed counts open votes of nodes that are sent nothing now as unknown, but for a release.
// If the round is not sealed, these nodes have not missed it yet. It returns the nodes whose votes
// are open still. claim.mu is held.
func (a *Attempt) missUnsealed() quorum.Nodes {
	for s := a.open(); s != 0 && a.op.Kind != node.Release; s &= s - 1 {
		n := a.mux.nodes[s.Lowest()]
		if why, rejects := n.Link.Rejects(); rejects {
			n.Counts.Failures[rejection(n.Link)].Add(1)
			a.addVote(s.Lowest(), node.Answer{Err: why})
		}
	}
	return a.open()
}

// heldOutcome names the nodes that refused, and the keys. claim.mu is held.
func (a *Attempt) heldOutcome() Outcome {
	refused := a.refused
	if a.op.Kind == node.Extend {
		refused |= a.claim.lost
	}
	o := Outcome{Result: Held, Nodes: make([]string, 0, refused.Count())}
	seen := make(map[int32]bool)
	for s := refused; s != 0; s &= s - 1 {
		i := s.Lowest()
		o.Nodes = append(o.Nodes, a.mux.nodes[i].Link.Name())
		if !a.refused.Has(i) || a.details == nil {
			continue // an earlier extension found it, or it is of a release
		}
		if key := a.details[i].keyIndex; key >= 0 && !seen[key] {
			seen[key] = true
			o.Keys = append(o.Keys, a.op.Keys.Key(int(key)))
		}
	}
	return o
}

// noQuorum names each node without a vote, in the first set that lacks a quorum even if the silent
// nodes grant, or that just lacks one. missing is the error of those that have not answered.
// claim.mu is held.
func (a *Attempt) noQuorum(silent quorum.Nodes, missing error) Outcome {
	granted, refused, did := a.granted|a.neverHeld, a.refused, ""
	names, slots := a.mux.aliases.Names(), a.mux.aliases.Slots()
	not := a.granted &^ a.system().OnePerServer(a.granted)
	switch {
	case a.keeps():
		granted, refused, did = a.granted, refused|a.neverHeld, "kept the keys"
	case a.op.Kind == node.Release:
		granted, refused, did = granted|refused, 0, "confirmed the release"
		not, _ = names.Unconfirmed(a.system().Nodes(), granted, 0)
	}
	granted &^= not
	able := granted | silent
	if a.system().IsQuorum(able) {
		able = granted
	}
	set := a.system().FirstWithout(able)
	o := Outcome{
		Result: NoQuorum, Need: quorum.Need(set.Count()),
		Did: did, Granted: (granted & set).Count(), Refused: (refused & set).Count(),
	}
	o.Unknown = set.Count() - o.Granted - o.Refused
	o.NoVotes = make([]holders.Node, 0, o.Unknown)
	for s := (a.open() | a.unknown | not) & set; s != 0; s &= s - 1 {
		i := s.Lowest()
		l := a.mux.nodes[i].Link
		n := holders.Node{Name: l.Name(), State: l.State(), Err: missing}
		if not.Has(i) {
			n.Err = a.sameServer(names.Others(i)&a.system().Nodes() | slots.Others(i)&granted&set)
		} else if a.unknown.Has(i) {
			n.Err = a.detail(i).err
		} else if why, down := l.Rejects(); down && missing == errDecided {
			n.Err = why // it was about to miss the attempt
		}
		o.NoVotes = append(o.NoVotes, n)
	}
	return o
}

package guard

import (
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
)

const (
	// settles is how long all nodes have had their records before the client looks again. Who
	// knows a node is told of a wipe at once, and a few round trips later has written that it is
	// one. It is short, so that the first call of the first client need not fail.
	settles = 10 * time.Millisecond
	// lookAgain is how often a node is looked at that may be used for the first time, for at most
	// firstUseTimeout on one connection.
	lookAgain       = 5 * time.Millisecond
	firstUseTimeout = 500 * time.Millisecond
	// halfWritten is for how long another client's first use may be under way.
	halfWritten = 3 * time.Second
)

// The stages of a first use: in each one the client sees to all nodes once.
const (
	looks = iota
	looksAgain
	admits
	over
)

// firstUse finds out whether no node has ever been used: see rule d. Peers.mu guards it.
type firstUse struct {
	nodes quorum.Nodes // those that can have a key
	stage int
	seen  quorum.Nodes // in this stage
	texts []string     // of the records that were seen first
	since time.Time    // when the stage began
}

// look takes a node with a record that is new, which the client has asked for at a moment. It
// reports whether the client is to admit the node, if it still has exactly this record.
func (f *firstUse) look(node int, text string, asked, now time.Time) (takes bool) {
	if f.stage < admits && f.texts[node] != text {
		if f.texts[node] != "" { // it was wiped, or another client has changed the record
			f.forget()
		}
		f.texts[node] = text
	}
	switch {
	case f.stage == over, f.stage == looksAgain && asked.Sub(f.since) < settles:
		return false
	case f.stage == admits:
		takes = f.texts[node] == text && !f.seen.Has(node)
	}
	f.seen |= quorum.Node(node)
	f.advance(now)
	return takes
}

// advance begins the next stage when all nodes were seen in this one.
func (f *firstUse) advance(now time.Time) {
	if f.seen == f.nodes && f.stage < over {
		f.stage, f.seen, f.since = f.stage+1, 0, now
	}
}

// forget begins again.
func (f *firstUse) forget() {
	clear(f.texts)
	f.stage, f.seen = looks, 0
}

// ruleOut takes a node that was used already. If the client is making the first use, another one
// was quicker there.
func (f *firstUse) ruleOut(node int, now time.Time) {
	if f.stage < admits {
		f.forget()
		f.stage = over
	}
	f.seen |= quorum.Node(node)
	f.advance(now)
}

// without leaves out a node that can't have a key.
func (f *firstUse) without(node int, now time.Time) {
	f.nodes &^= quorum.Node(node)
	f.advance(now)
}

// reason says what a node without a name waits for, while this may be the first use. It names five
// nodes at most.
func (f *firstUse) reason(guards []*Guard) string {
	const until = " to decide whether the nodes are new: until then, or MaxTTL, it does not vote"
	var missing []string
	for i, g := range guards {
		if f.nodes.Has(i) && f.texts[i] == "" && len(missing) < 5 {
			missing = append(missing, g.config.Name)
		}
	}
	if len(missing) == 0 {
		return "waiting for answers of all nodes at the same time" + until
	}
	return "waiting for " + strings.Join(missing, ", ") + until
}

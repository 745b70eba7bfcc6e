package sim

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/memorynode"
)

// takings holds which tokens the nodes took in a run. history.mu guards it.
type takings struct {
	bySlot  map[slot][]*taking // the oldest first
	pending map[reply][]*taking
	// When the client sent the newest release that a node has executed.
	released map[place]time.Time
}

// place is a key of a node, with its prefix, and a value that it may have. Two names of the node
// may release values that differ by their last character.
type place struct {
	node       int
	key, value string
}

// slot is a key with its prefix, and a token that may be in its value.
type slot struct{ key, token string }

// taking is the moment at which a node took a token for a key.
type taking struct {
	node     int
	server   *memorynode.Node
	sent, at time.Time // when the client sent the command, and when the node executed it
	answered time.Time // when the reply arrived at the client; zero if it did not
}

// reply is what a session sends to its client at some time.
type reply struct {
	from *memorynode.Session
	at   time.Time
}

func newTakings() takings {
	return takings{
		bySlot: map[slot][]*taking{}, pending: map[reply][]*taking{},
		released: map[place]time.Time{},
	}
}

// release records that a node executed the release of a key with a value.
func (h *history) release(key, value string, by *memorynode.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takings.released[place{by.Node().ID(), key, value}] = by.SentAt()
}

// take records that a node took a value for a key, by a command that arrived on a session. It is a
// violation if the client sent that behind the release, which is the last of a lease.
func (h *history) take(key, value string, by *memorynode.Session) {
	of, _ := ids.SplitValue(value)
	node, name := h.place(key)
	if node == none {
		node = by.Node().ID() % nodes
	}
	s, now := slot{name, of}, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	sent, ok := h.takings.released[place{by.Node().ID(), key, value}]
	if ok && !by.SentAt().Before(sent) {
		h.violate("node %d takes %s for a lease behind its release", by.Node().ID(), key)
	}
	t := &taking{node: node, server: by.Node(), sent: by.SentAt(), at: now}
	h.takings.bySlot[s] = append(h.takings.bySlot[s], t)
	h.takings.pending[reply{by, now}] = append(h.takings.pending[reply{by, now}], t)
}

// answer records that the client got what a session sent at that time.
func (h *history) answer(from *memorynode.Session, sentAt time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := reply{from, sentAt}
	for _, t := range h.takings.pending[r] {
		t.answered = time.Now()
	}
	delete(h.takings.pending, r)
}

// lastTaking returns the last taking of a slot by a node until some time, or nil.
func (h *history) lastTaking(s slot, node int, until time.Time) (last *taking) {
	for _, t := range h.takings.bySlot[s] {
		if t.node == node && !t.at.After(until) {
			last = t
		}
	}
	return last
}

// serversOf returns how many servers have taken a token for a key.
func (h *history) serversOf(s slot) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	servers := map[*memorynode.Node]bool{}
	for _, t := range h.takings.bySlot[s] {
		servers[t.server] = true
	}
	return len(servers)
}

// checkExtensions finds extensions that were confirmed although another holder has had the key
// since the lease was acquired, and the client had to notice. A hold that was handed off counts
// from the first hold of its token, which asked the nodes.
func (h *history) checkExtensions() {
	for key, holds := range h.byKey() {
		asked := map[string]time.Time{} // when the holds of a token began
		for _, b := range holds {
			if first, known := asked[b.lease.Token()]; !known || b.from.Before(first) {
				asked[b.lease.Token()] = b.from
			}
		}
		for _, mine := range holds {
			for _, e := range mine.extensions {
				for _, other := range holds {
					from := other.from
					if token := other.lease.Token(); token != "" {
						from = asked[token]
					}
					if from.After(mine.from) && from.Before(e.called) &&
						!h.mayConfirm(e, mine.unsureFrom(e), slot{prefix + key, mine.lease.Token()},
							slot{prefix + key, other.lease.Token()}, from) {
						h.violation("%s has an extension of %s confirmed, and %s has held it "+
							"since %v", mine.who, key, other.who, other.from.Sub(h.start))
					}
				}
			}
		}
	}
}

// mayConfirm reports whether a client may confirm an extension of its own token although a quorum
// has granted the key to another token before, at the time other got it. No extension was confirmed
// since unsure.
//
// Without the guard a client does not learn of each loss: see docs/guarantees.md. A lease is held
// as soon as a quorum has granted it, and other nodes may take its token much later. If another
// lease came and went meanwhile, their answers are as if it had never been. The same is true of an
// extension whose answer does not arrive, and a node that does not answer may have lost nothing.
//
// But the extension needs a quorum of nodes that took its token by an earlier command, and did not
// take the other token after that. And the client must not have answers from a quorum that the key
// was gone, since it last confirmed that it has the key.
func (h *history) mayConfirm(e span, unsure time.Time, own, other slot, got time.Time) bool {
	grants, gone := 0, 0
	for node := range h.voters {
		last := h.lastTaking(own, node, e.returned)
		if last == nil {
			continue
		}
		lost := h.lastTaking(other, node, got)
		if last.sent.Before(e.called) && (lost == nil || lost.at.Before(last.at)) {
			grants++
		}
		if !last.sent.Before(unsure) && !last.answered.IsZero() &&
			!last.answered.After(e.returned) {
			gone++
		}
	}
	return grants > h.voters/2 && gone <= h.voters/2
}

// unsureFrom returns since when no extension was confirmed before e: when the first one that failed
// was called, or else e. Of automatic extensions the history knows nothing. They may confirm a
// lease in between, so for such a lease only e counts.
func (b *hold) unsureFrom(e span) time.Time {
	confirmed, first := b.from, e.called
	for _, x := range b.extensions {
		if x.called.Before(e.called) && x.called.After(confirmed) {
			confirmed = x.called
		}
	}
	for _, x := range b.failed {
		if !b.auto && x.called.After(confirmed) && x.called.Before(first) {
			first = x.called
		}
	}
	return first
}

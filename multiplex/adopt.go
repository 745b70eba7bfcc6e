package multiplex

import (
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/script"
)

// longestKept is how long keys may be kept, at most.
const longestKept = 90 * 24 * time.Hour

// What Claim.Adopt has an acquire take: see script.Set.
const (
	TakesMarked   = script.Marked
	TakesUnmarked = script.Unmarked
	TakesFree     = script.Free
)

// Keep starts to keep the claim's keys for ttl, on every node that has its token: T becomes T and a
// mark. It is the last attempt of the claim in place of Release, so that no extension and no
// release of T comes behind it, and a node that has not answered gets it again. It is Won when a
// quorum of nodes keeps the keys, and Held when so many had lost them that none can.
//
// # From one process to another
//
//  1. Keep is called when the lease is over. So a mark anywhere says that nobody holds T.
//  2. A mark is only written where T was, or in place of an adopter's U that was there for T.
//  3. An acquire that adopts has a token U of its own. It takes keys that have T and the mark,
//     whatever the node's character is, and writes its own character: one server, one vote.
//  4. It takes T without the mark only if its caller has seen the mark on some node.
//  5. It takes no free key. So a quorum that grants has had the keys all the time. A node that
//     forgot them does not count, nor does one that a put-back reached when all was over.
//  6. The exception are nodes that the fleet has moved to since Keep. The handle says which sets
//     had the keys. A part of the claim with none of these takes free keys, if another part with
//     each of its keys does not. Its release deletes them always.
//  7. What it takes lasts for the TTL, or longer if it did so before. So if the adopter dies, the
//     keys stay until the later one of the two ends.
//  8. An attempt that fails is released: U becomes T and the mark again, and keeps its end. That is
//     repeated as every release. No other adopter can win before: U is in its way.
//  9. The release of a lease that was granted deletes U, and the mark where U did not get it.
//  10. T never comes back: an extension, a release or a Keep of T finds U, or T and the mark, and
//     changes nothing. If it finds no key, an extension may set T, for its TTL at most.
//  11. Sets of more than 250 keys are taken in parts, and put back in parts.
//  12. If a connection breaks, a server may take U after the release that was to undo it. Then
//     nobody can adopt the keys until they end: nobody is given them twice.
func (m *Mux) Keep(c *Claim, ttl time.Duration) *Attempt {
	whole := (ttl + time.Millisecond - 1) / time.Millisecond
	return m.release(c, c.Len(), strconv.FormatInt(int64(whole), 10))
}

// keeps reports whether the attempt is one of Keep.
func (a *Attempt) keeps() bool {
	return a.op.Kind == node.Release && a.op.TTL != "" && a.op.TTL != node.PutBack
}

// frees reports whether the attempt releases what was adopted. It deletes what nodes still keep
// too, because the adopter could not reach them, or another one had it and put it back.
func (a *Attempt) frees() bool {
	return a.op.Kind == node.Release && a.op.TTL == "" && a.claim.Adopts()
}

// ifAllSay returns a decision if it is Won or no vote is open: the others may matter to the caller.
// claim.mu is held.
func (a *Attempt) ifAllSay(d quorum.Decision, unknown quorum.Nodes) quorum.Decision {
	said := a.granted | a.refused | a.neverHeld | unknown
	if d != quorum.Won && a.system().Nodes()&^said != 0 {
		return quorum.Undecided
	}
	return d
}

// Adopt has the acquire of the claim take keys that were kept with this token: see script.Set. It
// comes after Init, and before the only attempt to acquire.
func (c *Claim) Adopt(token, takes string) {
	c.keys.Adopt(token, takes)
	c.puts, c.mayOutlive, c.maxTTLSent = takes != script.Free, true, longestKept
}

// Adopts reports whether the claim is for keys that were kept.
func (c *Claim) Adopts() bool { return c.keys.Kept() != nil }

// Adopted says that a lease of the claim has begun: its release deletes the keys.
func (c *Claim) Adopted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.puts = false
}

// Adoption is what nodes have said of keys that were to be adopted.
type Adoption struct {
	Taken   bool // a node has taken them, and not because they were free
	Missing bool // so many nodes miss some that no quorum keeps them
}

// Adoption explains, after Wait, an attempt that was to adopt keys and has failed: it adds to seen.
func (a *Attempt) Adoption(seen *Adoption) {
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	a.count()
	seen.Taken = seen.Taken || a.granted != 0 && a.claim.puts
	var missing quorum.Nodes
	for s := a.refused; s != 0; s &= s - 1 {
		if i := s.Lowest(); a.detail(i).keyIndex < 0 {
			missing |= quorum.Node(i)
		}
	}
	seen.Missing = seen.Missing || a.system().Acquire(0, missing, 0) == quorum.Held
}

package multiplex

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/script"
)

// fence is what a claim asks for beside its keys: the numbers from first to last. A node grants
// only if all companions of the keys have less than first there, and they have last then.
//
// So the numbers of a lease are above those of every earlier lease on one of its keys. Let a lease
// be granted by a quorum, end, and another be granted by a quorum after that. Some node is in both.
// It granted the first one before the second: had it been the other way round, the second's key had
// to be gone there before the first was granted, while validity counts from before it was sent, so
// that its lease would have ended before the first began. And when that node granted the second
// one, the companion had the last number of the first, or more.
//
// That ends where a node forgets its companions: then a lower fence is possible only if each node
// in both quorums forgot. The restart guard lets a node that forgot vote after MaxTTL, and the
// numbers follow the wall clocks of the clients: see Claim.Fence.
type fence struct {
	script.Fence
	first, last int64
	before      time.Time // the numbers were taken
}

// Fence has the claim ask for the numbers from first to last, above 0 and up to MaxFence. It comes
// after Init, and before the one attempt to acquire, whose validity counts from before: a time
// before the numbers were taken. So no lease begins long after the time that its numbers stand for,
// however long the process is paused in between.
func (c *Claim) Fence(before time.Time, first, last int64) {
	f := &fence{first: first, last: last, before: before}
	f.First, f.Last = strconv.FormatInt(first, 10), strconv.FormatInt(last, 10)
	f.FenceKeys = make([]string, c.Len())
	for i, key := range c.keys() {
		f.FenceKeys[i] = key[:c.prefix] + companionKey + key[c.prefix:]
	}
	if c.extra == nil {
		c.extra = new(extra)
	}
	c.extra.fence = f
}

// Fences returns the numbers that the claim asked for; 0 without a fence.
func (c *Claim) Fences() (first, last int64) {
	if f := c.fence(); f != nil {
		return f.first, f.last
	}
	return 0, 0
}

// fence returns what Fence has set; nil without it.
func (c *Claim) fence() *fence {
	if c.extra == nil {
		return nil
	}
	return c.extra.fence
}

// from is the time from which the validity of a new attempt counts.
func (c *Claim) from(k kind) time.Time {
	if f := c.fence(); f != nil && k == acquire {
		return f.before
	}
	return time.Now()
}

// MaxFence is the highest number of a fence.
const MaxFence = script.MaxFence

// staleError is the vote of a node whose companions have seen a number that is not below the fence.
// It says nothing about a holder, and left nothing on the node.
type staleError struct{ seen int64 }

func (e *staleError) Error() string {
	if e.seen >= MaxFence {
		return fmt.Sprintf("a fence of %d was granted before, and there is none above it: the "+
			"key can't be taken with fencing until its companion is deleted, or expires", e.seen)
	}
	return fmt.Sprintf("a fence of %d was granted before, which is not below that of this attempt",
		e.seen)
}

// stale takes the answer about a set, or a part of one, that found seen in its companions. What
// another part said first counts.
func (r *answer) stale(seen int64, nothing bool) {
	var before *staleError
	switch {
	case r.vote == granted:
		*r = answer{nothing: nothing, replied: true, err: &staleError{seen}}
	case errors.As(r.err, &before):
		before.seen = max(before.seen, seen)
	}
}

// Stale tells of an acquire with a fence, after Wait, the highest number that was in its way on any
// node so far and can be topped; 0: none. again: that is why it failed, or may be, and a higher
// fence may be granted. at once: the nodes that said so are a quorum, and nothing of this attempt
// is on them; else its release is worth waiting for.
func (a *Attempt) Stale() (seen int64, again, atOnce bool) {
	if a.claim.fence() == nil {
		return 0, false, false
	}
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	var behind nodeSet
	hopeful := a.granted | a.silent()
	for s := a.unknown; s != 0; s &= s - 1 {
		i := s.first()
		var e *staleError
		switch err := a.notes[i].err; {
		case errors.As(err, &e) && e.seen < MaxFence:
			behind |= one(i)
			seen = max(seen, e.seen)
		case err == errSuperseded: // by the release
			hopeful |= one(i)
		}
	}
	need := quorum(len(a.calls))
	again = a.decision == noQuorum && behind != 0 && (behind|hopeful).count() >= need
	return seen, again, again && behind.count() >= need &&
		a.claim.Len() <= script.AcquireFenced.MaxSet()
}

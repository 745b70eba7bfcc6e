package multiplex

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/reserved"
	"github.com/lockpipe/lockpipe/script"
)

// fence is what a claim asks for in addition to its keys: the numbers from first to last. A node
// grants only if the fence keys of all keys are below first there. Then it sets them to last.
//
// So the numbers of a lease are above those of every earlier lease on one of its keys. Let a lease
// be granted by a quorum and end, and let another be granted by a quorum after that. Some node is
// in both quorums.
//
// That node granted the first lease before the second. Suppose it had been the other way round.
// Then the second's key had to be gone there before the node granted the first. Validity counts
// from before an attempt is sent, so the second lease would have ended before the first began.
//
// And when that node granted the second lease, its fence key had the last number of the first, or
// more.
//
// That ends when a node forgets its fence keys. Then a lower fence is possible only if each node in
// both quorums forgot. The restart guard lets a node that forgot vote after MaxTTL, and the numbers
// follow the wall clocks of the clients: see Claim.Fence.
type fence struct {
	script.Fence
	singleFenceKey [1]string // of the only key
	first, last    int64
	before         time.Time // the numbers were taken after it
}

// Fence has the claim ask for the numbers from first to last, above 0 and up to MaxFence. It comes
// after Init, and before the only attempt to acquire. The validity of that attempt counts from
// before: a time before the numbers were taken. So no lease begins long after the time that its
// numbers stand for, however long the process is paused in between.
func (c *Claim) Fence(before time.Time, first, last int64) {
	if c.cold == nil {
		both := new(struct { // one allocation
			cold  coldClaim
			fence fence
		})
		c.cold, both.cold.fence = &both.cold, &both.fence
	} else {
		c.cold.fence = new(fence)
	}
	f := c.cold.fence
	f.first, f.last, f.before = first, last, before
	f.First = strconv.FormatInt(first, 10)
	if f.Last = f.First; last > first {
		f.Last = strconv.FormatInt(last, 10)
	}
	if f.FenceKeys = f.singleFenceKey[:]; c.Len() > 1 {
		f.FenceKeys = make([]string, c.Len())
	}
	for i, key := range c.keys() {
		f.FenceKeys[i] = key[:c.prefix] + reserved.Fence + key[c.prefix:]
	}
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
	if c.cold == nil {
		return nil
	}
	return c.cold.fence
}

// validityStart returns the time from which the validity of a new attempt counts.
func (c *Claim) validityStart(k kind) time.Time {
	if f := c.fence(); f != nil && k == acquire {
		return f.before
	}
	return time.Now()
}

// MaxFence is the highest number of a fence.
const MaxFence = script.MaxFence

// fenceTooLowError is the vote of a node whose fence keys have a number that is not below the
// fence. It says nothing about a holder, and the attempt left nothing on the node.
type fenceTooLowError struct{ seen int64 }

func (e *fenceTooLowError) Error() string {
	if e.seen >= MaxFence {
		return fmt.Sprintf("a fence of %d was granted before, and there is none above it: the "+
			"key can't be taken with fencing until its fence key is deleted or expires", e.seen)
	}
	return fmt.Sprintf("a fence of %d was granted before, which is not below that of this attempt",
		e.seen)
}

// setFenceTooLow takes the reply about a set, or a part of one, that found the number seen in its
// fence keys. If another part has replied, its reply counts.
func (r *answer) setFenceTooLow(seen int64, nothing bool) {
	var before *fenceTooLowError
	switch {
	case r.vote == granted:
		*r = answer{leftNothing: nothing, replied: true, err: &fenceTooLowError{seen}}
	case errors.As(r.err, &before):
		before.seen = max(before.seen, seen)
	}
}

// FenceTooLow explains, after Wait, an acquire with a fence. seen is the highest number that was in
// its way on any node so far and can be exceeded; 0: none. again: that is why the attempt failed,
// or may be, and a higher fence may be granted. atOnce: the nodes that said so are a quorum, and
// nothing of this attempt is on them. Otherwise its release is worth waiting for.
func (a *Attempt) FenceTooLow() (seen int64, again, atOnce bool) {
	if a.claim.fence() == nil {
		return 0, false, false
	}
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	a.countRound()
	var behind nodeSet
	hopeful := a.granted | a.unanswered()
	for s := a.unknown; s != 0; s &= s - 1 {
		i := s.first()
		var e *fenceTooLowError
		switch err := a.unknownErr(i); {
		case errors.As(err, &e) && e.seen < MaxFence:
			behind |= nodeBit(i)
			seen = max(seen, e.seen)
		case err == errSuperseded: // by the release
			hopeful |= nodeBit(i)
		}
	}
	need := quorum(len(a.mux.nodes))
	again = a.decision == noQuorum && behind != 0 && (behind|hopeful).count() >= need
	return seen, again, again && behind.count() >= need &&
		a.claim.Len() <= script.AcquireFenced.MaxSet()
}

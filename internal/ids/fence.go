package ids

import (
	"slices"
	"sync/atomic"
	"time"
)

// MaxFence is the highest fence: up to it the scores of sorted sets hold every integer.
const MaxFence = 1<<53 - 1

// Fence is what an acquire asks for in addition to its keys: the numbers from Numbers[0] to
// Numbers[1]. A node grants only if it knows no number for one of the keys that is not below the
// first. Then it knows the last.
type Fence struct {
	Numbers [2]int64
	// Members are where a node has the numbers of the keys, in the sorted set FencesKey. Keys of
	// equal hashes share a member, and each has the numbers of all. None is listed twice.
	Members []uint16

	single [1]uint16 // memory of Members
}

// SetFence has an acquire of the keys ask for the numbers from first to last.
func (k *Keys) SetFence(first, last int64) {
	if k.cold == nil {
		k.cold = new(coldKeys)
	}
	f := &k.cold.fence
	f.Numbers, f.Members = [2]int64{first, last}, f.single[:0]
	for i := range k.Len() {
		if m := FenceMember(k.Key(i)); !slices.Contains(f.Members, m) {
			f.Members = append(f.Members, m)
		}
	}
}

// FenceMember returns the member that has the numbers of a key, given without the prefix: the 32
// bits of FNV-1a, folded to 16. All clients of a node must agree.
func FenceMember(key string) uint16 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return uint16(h>>16 ^ h)
}

const (
	// The reserved numbers may lead the clock ahead of the wall clock by a leadFraction of MaxTTL,
	// and by maxLead at most: after nodes forgot their numbers only the wall clocks keep the
	// order. A lease gets a reserveFraction of what is left of the lead.
	leadFraction, reserveFraction = 4, 16
	maxLead                       = time.Minute
	// maxFollow is how far ahead of the wall clock the clock follows what a call saw of others.
	maxFollow = 10 * time.Minute
)

// FenceClock is the hybrid logical clock of one client. All methods are safe for concurrent use,
// and none of them blocks.
type FenceClock struct {
	now     func() time.Time // set once
	maxLead int64            // microseconds; set once
	last    atomic.Int64     // the highest number that all further proposals must be above
}

// NewFenceClock returns a clock that follows the wall clock now. maxTTL is the longest TTL that any
// client of the same nodes uses.
func NewFenceClock(now func() time.Time, maxTTL time.Duration) *FenceClock {
	lead := min(maxTTL/leadFraction, maxLead)
	return &FenceClock{now: now, maxLead: lead.Microseconds()}
}

// Reserve returns the numbers from first to last for one lease: at least one, and at most so many.
// They are above floor and above all numbers before them, but for what a call saw far ahead of the
// wall clock.
func (c *FenceClock) Reserve(floor, most int64) (first, last int64) {
	for {
		before, now := c.last.Load(), c.now().UnixMicro()
		furthest := now + maxFollow.Microseconds()
		if first = now; before <= furthest { // else the wall clock was wrong, and was set back
			first = max(before+1, now)
		}
		first = min(max(first, floor+1), MaxFence)
		count := max(1, min(most, (now+c.maxLead-first)/reserveFraction))
		last = min(first-1+count, MaxFence)
		if last > furthest || c.last.CompareAndSwap(before, last) {
			return first, last
		}
	}
}

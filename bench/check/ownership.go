package check

import (
	"sync/atomic"
	"time"
)

// Ownership knows who holds each key, in the view of the callers, and counts violations: two
// holders of one key at the same time.
//
// A caller holds a key from the moment when its acquire returned until just before it calls
// Release, or until the lease's Until has passed, whichever is first. All times are read from one
// monotonic clock. There are no false alarms: a violation means that both held the key when the
// slot was read. Claim comes a moment after the acquire returned, so a hold that ends in between
// may be missed.
//
// Each key has one word, changed by compare-and-swap: the end of validity in microseconds after
// base, above idBits bits of the holder's number. 0 is a free key. So a claim costs a read of the
// clock and one atomic operation, and no lock.
type Ownership struct {
	base       time.Time
	slots      []atomic.Uint64
	violations atomic.Uint64
}

// idBits has room for a million holders.
const idBits = 20

// MaxHolder is the highest number of a holder.
const MaxHolder = 1<<idBits - 1

// NewOwnership returns the Ownership of keys that are all free. base must not be after the first
// claim.
func NewOwnership(keys int, base time.Time) *Ownership {
	return &Ownership{base: base, slots: make([]atomic.Uint64, keys)}
}

// Claim notes that a holder, numbered from 1, was granted a key until a time. Give Drop the word
// that it returns.
func (o *Ownership) Claim(key int, holder uint32, until time.Time) (word uint64) {
	end := o.micros(until)
	word = end<<idBits | uint64(holder)
	slot := &o.slots[key]
	violated := false
	for {
		// The order matters: the holder in the slot, if it is valid at a later reading of the
		// clock, holds the key now. So does the caller, unless its own time has passed by then.
		seen := slot.Load()
		now := o.micros(time.Now())
		if end <= now {
			word = 0
			break
		}
		if seen>>idBits > now {
			violated = true
		}
		if slot.CompareAndSwap(seen, word) {
			break
		}
	}
	if violated {
		o.violations.Add(1)
	}
	return word
}

// Drop notes that the holder is about to release. It leaves the slot alone if another holder is in
// it by now.
func (o *Ownership) Drop(key int, word uint64) {
	if word != 0 {
		o.slots[key].CompareAndSwap(word, 0)
	}
}

// Violations returns how often a key was claimed while another holder's claim was valid.
func (o *Ownership) Violations() uint64 { return o.violations.Load() }

func (o *Ownership) micros(t time.Time) uint64 {
	return uint64(max(t.Sub(o.base), 0) / time.Microsecond)
}

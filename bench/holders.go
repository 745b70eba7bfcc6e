package bench

import (
	"sync/atomic"
	"time"
)

// holders knows who holds each key, in the view of the callers, and counts violations: two holders
// of one key at once.
//
// A caller holds a key from the moment its acquire returned until just before it calls Release, or
// until the lease's Until has passed, whichever is first. All times are taken from one monotonic
// clock. There are no false alarms: what counts was held by both at the moment the slot was read. A
// hold that ended before the other was told of (claim comes a moment after the acquire returned)
// may go unseen.
//
// One word per key, changed by compare-and-swap: the end of validity in microseconds after base,
// above idBits bits of the holder's number. 0 is a free key. So a claim costs a read of the clock
// and one atomic operation, and no lock.
type holders struct {
	base       time.Time
	slots      []atomic.Uint64
	violations atomic.Uint64
}

// idBits is enough for maxCallers.
const idBits = 20

func newHolders(keys int, base time.Time) *holders {
	return &holders{base: base, slots: make([]atomic.Uint64, keys)}
}

// claim notes that a holder, numbered from 1, was granted a key until a time. The word that it
// returns is for drop.
func (h *holders) claim(key int, holder uint32, until time.Time) (word uint64) {
	end := h.micros(until)
	word = end<<idBits | uint64(holder)
	slot := &h.slots[key]
	violated := false
	for {
		// The order matters: whoever stands in the slot now, and is valid at a later reading of the
		// clock, holds the key now, and so does the caller, unless its own time has passed by then.
		seen := slot.Load()
		now := h.micros(time.Now())
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
		h.violations.Add(1)
	}
	return word
}

// drop notes that the holder is about to release. It leaves the slot alone where somebody else
// stands in it by now.
func (h *holders) drop(key int, word uint64) {
	if word != 0 {
		h.slots[key].CompareAndSwap(word, 0)
	}
}

func (h *holders) micros(t time.Time) uint64 {
	return uint64(max(t.Sub(h.base), 0) / time.Microsecond)
}

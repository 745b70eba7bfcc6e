package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Two valid leases of one key at once are a violation, and anything that ended first is none.
func TestHoldersCountTwoAtOnce(t *testing.T) {
	const ttl = 10 * time.Second
	for name, tc := range map[string]struct {
		between func(h *holders, first uint64) // what happens between the two claims of key 0
		want    uint64
	}{
		"still held":       {func(*holders, uint64) {}, 1},
		"dropped":          {func(h *holders, first uint64) { h.drop(0, first) }, 0},
		"expired":          {func(*holders, uint64) { pass(ttl) }, 0},
		"not yet expired":  {func(*holders, uint64) { pass(ttl - time.Millisecond) }, 1},
		"another key free": {func(h *holders, first uint64) { h.drop(1, first) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolders(2, time.Now())
				tc.between(h, h.claim(0, 1, time.Now().Add(ttl)))
				h.claim(0, 2, time.Now().Add(ttl))
				h.claim(1, 3, time.Now().Add(ttl))
				require.Equal(t, tc.want, h.violations.Load())
			})
		})
	}
}

// A key that was dropped is free for the next holder.
func TestHoldersForgetWhatWasDropped(t *testing.T) {
	h := newHolders(1, time.Now())
	until := time.Now().Add(time.Hour)
	for holder := range uint32(10) {
		h.drop(0, h.claim(0, holder+1, until))
	}
	require.Zero(t, h.violations.Load())
}

// A holder that learns of its grant only after it has expired never held the key as far as others
// can tell: it must neither count as a second holder nor take the slot from the one who holds it
// now.
func TestHoldersIgnoreAGrantThatCameTooLate(t *testing.T) {
	h := newHolders(1, time.Now())
	current := h.claim(0, 1, time.Now().Add(time.Hour))
	require.Zero(t, h.claim(0, 2, time.Now().Add(-time.Second)))
	require.Zero(t, h.claim(0, 2, time.Time{}), "a lease that is over has no Until")
	require.Zero(t, h.violations.Load())
	require.Equal(t, current, h.slots[0].Load())
}

// An expired holder that drops late must not free the key of the next holder.
func TestHoldersKeepTheNextHolderOnALateDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolders(1, time.Now())
		late := h.claim(0, 1, time.Now().Add(time.Second))
		pass(2 * time.Second)
		h.claim(0, 2, time.Now().Add(time.Hour))
		h.drop(0, late)
		h.claim(0, 3, time.Now().Add(time.Hour))
		require.EqualValues(t, 1, h.violations.Load(), "2 still holds the key")
	})
}

// BenchmarkHolderCheck is what the check adds to each lock: it stands in the measured loop.
func BenchmarkHolderCheck(b *testing.B) {
	h := newHolders(1, time.Now())
	until := time.Now().Add(time.Hour)
	for b.Loop() {
		h.drop(0, h.claim(0, 1, until))
	}
}

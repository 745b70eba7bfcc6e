package check

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: two valid leases of one key at the same time are a violation. If the first one ended
// before, there is none.
func TestOwnership_TwoHoldersAreAViolation(t *testing.T) {
	const ttl = 10 * time.Second
	for name, tc := range map[string]struct {
		between func(o *Ownership, first uint64) // what happens between the two claims of key 0
		want    uint64
	}{
		"still held":       {func(*Ownership, uint64) {}, 1},
		"dropped":          {func(o *Ownership, first uint64) { o.Drop(0, first) }, 0},
		"expired":          {func(*Ownership, uint64) { time.Sleep(ttl) }, 0},
		"not yet expired":  {func(*Ownership, uint64) { time.Sleep(ttl - time.Millisecond) }, 1},
		"another key free": {func(o *Ownership, first uint64) { o.Drop(1, first) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOwnership(2, time.Now())
				tc.between(o, o.Claim(0, 1, time.Now().Add(ttl)))
				o.Claim(0, 2, time.Now().Add(ttl))
				o.Claim(1, 3, time.Now().Add(ttl))
				require.Equal(t, tc.want, o.Violations())
			})
		})
	}
}

// Goal: a key that was dropped is free for the next holder.
func TestOwnership_ADroppedKeyIsFree(t *testing.T) {
	o := NewOwnership(1, time.Now())
	until := time.Now().Add(time.Hour)
	for holder := range uint32(10) {
		o.Drop(0, o.Claim(0, holder+1, until))
	}
	require.Zero(t, o.Violations())
}

// Goal: a holder that learns of its grant after it has expired never held the key in the view of
// others. It neither counts as a second holder nor takes the slot from the present one.
func TestOwnership_ALateGrantIsIgnored(t *testing.T) {
	o := NewOwnership(1, time.Now())
	current := o.Claim(0, 1, time.Now().Add(time.Hour))
	require.Zero(t, o.Claim(0, 2, time.Now().Add(-time.Second)))
	require.Zero(t, o.Claim(0, 2, time.Time{}), "a lease that is over has no Until")
	require.Zero(t, o.Violations())
	require.Equal(t, current, o.slots[0].Load())
}

// Goal: an expired holder that drops late does not free the key of the next holder.
func TestOwnership_ALateDropKeepsTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOwnership(1, time.Now())
		late := o.Claim(0, 1, time.Now().Add(time.Second))
		time.Sleep(2 * time.Second)
		o.Claim(0, 2, time.Now().Add(time.Hour))
		o.Drop(0, late)
		o.Claim(0, 3, time.Now().Add(time.Hour))
		require.EqualValues(t, 1, o.Violations(), "2 still holds the key")
	})
}

// BenchmarkOwnership is what the check adds to each lock: it is in the measured loop.
func BenchmarkOwnership(b *testing.B) {
	o := NewOwnership(1, time.Now())
	until := time.Now().Add(time.Hour)
	for b.Loop() {
		o.Drop(0, o.Claim(0, 1, until))
	}
}

package ids

import (
	"slices"
	"time"
)

// MaxFence is the highest fence: up to it the scores of sorted sets hold every integer.
const MaxFence = 1<<53 - 1

// Fence is what an acquire asks for in addition to its keys: the numbers from Numbers[0] to
// Numbers[1]. A node grants only if it knows no number for one of the keys that is not below the
// first. Then it knows the last.
type Fence struct {
	Numbers [2]int64
	Before  time.Time // the numbers were taken after it
	// Members are where a node has the numbers of the keys, in the sorted set FencesKey. Keys of
	// equal hashes share a member, and each has the numbers of all. None is listed twice.
	Members []uint16

	single [1]uint16 // memory of Members
}

// SetFence has an acquire of the keys ask for the numbers from first to last, which were taken
// after before.
func (k *Keys) SetFence(before time.Time, first, last int64) {
	if k.cold == nil {
		both := new(struct { // one allocation
			cold  coldKeys
			fence Fence
		})
		k.cold, both.cold.fence = &both.cold, &both.fence
	} else {
		k.cold.fence = new(Fence)
	}
	f := k.cold.fence
	f.Numbers, f.Before, f.Members = [2]int64{first, last}, before, f.single[:0]
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

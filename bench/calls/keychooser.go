// Package calls says when each call of a run is due, and which keys it asks for.
package calls

import "math/rand/v2"

// KeyChooser chooses distinct random keys. It is for one goroutine.
type KeyChooser struct {
	random *rand.Rand
	taken  map[int]struct{} // scratch of Choose
}

// NewKeyChooser gives each caller a sequence of its own that depends on the seed alone.
func NewKeyChooser(seed uint64, caller int) KeyChooser {
	return KeyChooser{
		random: rand.New(rand.NewPCG(seed, uint64(caller))),
		taken:  make(map[int]struct{}),
	}
}

// Choose fills chosen with distinct numbers below n. Every set of them is equally likely (Floyd's
// algorithm). len(chosen) is at most n.
func (c *KeyChooser) Choose(chosen []int, n int) {
	if len(chosen) == 1 {
		chosen[0] = c.random.IntN(n)
		return
	}
	clear(c.taken)
	for i := range chosen {
		last := n - len(chosen) + i
		k := c.random.IntN(last + 1)
		if _, ok := c.taken[k]; ok {
			k = last
		}
		c.taken[k] = struct{}{}
		chosen[i] = k
	}
}

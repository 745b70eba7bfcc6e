package bench

import "math/rand/v2"

// keyChooser chooses distinct random keys. It is owned by one worker.
type keyChooser struct {
	random *rand.Rand
	taken  map[int]struct{} // scratch of choose
}

// newKeyChooser gives each worker a sequence of its own that depends on the seed alone.
func newKeyChooser(seed uint64, worker int) keyChooser {
	return keyChooser{
		random: rand.New(rand.NewPCG(seed, uint64(worker))),
		taken:  make(map[int]struct{}),
	}
}

// choose fills chosen with distinct numbers below n. Every set of them is equally likely (Floyd's
// algorithm). len(chosen) is at most n.
func (c *keyChooser) choose(chosen []int, n int) {
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

package bench

import "math/rand/v2"

// picker chooses distinct random keys. It is owned by one worker.
type picker struct {
	random *rand.Rand
	taken  map[int]struct{} // scratch of pick
}

// newPicker gives each worker a sequence of its own that depends on nothing but the seed.
func newPicker(seed uint64, worker int) picker {
	return picker{
		random: rand.New(rand.NewPCG(seed, uint64(worker))),
		taken:  make(map[int]struct{}),
	}
}

// pick fills chosen with distinct numbers below n; every set of them is equally likely (Floyd's
// algorithm). len(chosen) is at most n.
func (p *picker) pick(chosen []int, n int) {
	if len(chosen) == 1 {
		chosen[0] = p.random.IntN(n)
		return
	}
	clear(p.taken)
	for i := range chosen {
		last := n - len(chosen) + i
		k := p.random.IntN(last + 1)
		if _, ok := p.taken[k]; ok {
			k = last
		}
		p.taken[k] = struct{}{}
		chosen[i] = k
	}
}

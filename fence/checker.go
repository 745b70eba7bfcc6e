// Package fence is the resource's side of fencing: what compares the number of a lease
// (Lease.Fence) with those that came before it. A resource that is a database compares in the
// statement that writes, as docs/fencing.md shows; a Checker is for one that lives in the memory of
// one process, and for tests.
package fence

import "sync"

// Checker knows the highest fence of each key. The zero value is ready. It must not be copied. All
// methods are safe for concurrent use. It takes memory for each key that it was ever asked about.
type Checker struct {
	mu          sync.Mutex // guards all below
	highest     map[string]int64
	regressions uint64
}

// Allow reports whether fence is above all that were allowed for key before, and above 0, and is
// the highest from then on if it is. Each lease asks once for each of its keys, before it touches
// what the key stands for: one that is refused comes too late, and another lease may have been
// there already.
func (c *Checker) Allow(key string, fence int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fence <= c.highest[key] {
		c.regressions++
		return false
	}
	if c.highest == nil {
		c.highest = make(map[string]int64)
	}
	c.highest[key] = fence
	return true
}

// Regressions returns how often Allow was false.
func (c *Checker) Regressions() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.regressions
}

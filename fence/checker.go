// Package fence is the resource's side of fencing: it compares the number of a lease (Lease.Fence)
// with those that came before it. If the resource is a database, compare in the statement that
// writes, as docs/fencing.md shows. A Checker is for a resource in the memory of one process, and
// for tests.
package fence

import "sync"

// Checker knows the highest fence of each key. The zero value is ready. It must not be copied. All
// methods are safe for concurrent use. It takes memory for each key that it ever checked.
type Checker struct {
	mu          sync.Mutex // guards all below
	highest     map[string]int64
	regressions uint64
}

// Allow reports whether fence is above 0 and above all fences that it allowed for key before. If
// so, it is the highest from then on. The holder of a lease asks once for each of its keys, before
// it touches what the key protects. If Allow refuses, the holder comes too late, and another may
// have been there already.
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

// Package chunks divides much work of one kind into chunks, of which several are in progress at the
// same time.
package chunks

import (
	"sync"
	"sync/atomic"
)

// Do has a number of callers call do for chunks of 0 to n: chunk i has the numbers from first to
// before end, which are size of them, or fewer in the last chunk. It starts no more chunks after an
// error, and returns the first error.
func Do(n, size, callers int, do func(chunk, first, end int) error) error {
	var working sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range callers {
		working.Go(func() {
			for failed.Load() == nil {
				chunk := int(next.Add(1) - 1)
				first := chunk * size
				if first >= n {
					return
				}
				if err := do(chunk, first, min(first+size, n)); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	working.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

package locker

import "sync"

// broadcast wakes all goroutines that wait for the next event. The zero value is ready.
type broadcast struct {
	mu   sync.Mutex
	wake chan struct{} // closed by the next event; nil: nobody waits. Guarded by mu
}

// next returns a channel that the next event closes.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return b.wake
}

// notify reports an event. It does not block.
func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

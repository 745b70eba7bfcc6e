package lockpipe

import (
	"context"
	"sync"
)

// turn lets one goroutine at a time through. It costs nothing until two want to.
type turn struct {
	mu    sync.Mutex // guards below; a leaf
	taken bool
	free  chan struct{} // closed when it is given back; nil while nobody waits
}

// take returns nil when the caller has the turn, or an error when ctx or the other context ends first.
func (t *turn) take(ctx context.Context, other func() context.Context) error {
	for {
		t.mu.Lock()
		if !t.taken {
			t.taken = true
			t.mu.Unlock()
			return nil
		}
		if t.free == nil {
			t.free = make(chan struct{})
		}
		free := t.free
		t.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		case <-other().Done():
			return context.Cause(other())
		}
	}
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	if t.free != nil {
		close(t.free)
		t.free = nil
	}
}

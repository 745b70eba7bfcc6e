package calls

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/parts"
)

// maxFutile is how many tries in a row may follow changes of the keys and fail. After that the call
// waits for its delay, as if no node reported changes.
const maxFutile = 6

// pool is what the calls for some of the same keys share.
type pool struct {
	name    string // in Calls.pools
	keys    []string
	calls   int          // that have joined; guarded by Calls.mu
	waiting atomic.Int64 // calls that are in the line
	// Of capacity 1: the first call in the line has put an element in. The others wait to do that,
	// and a channel serves them in the order of arrival.
	turn chan struct{}

	busy   chan struct{}         // of capacity 1: guards all below
	free   []string              // may be free, in a random order, and no call has chosen them
	heldAt map[string]*line.Node // a node that has a key

	// For the first call in the line.
	wake    chan struct{} // of capacity 1
	watches []*line.Watch // of each key; nil: it is not watched
}

// join counts a call in.
func (c *Calls) join(keys []string) *pool {
	name := strings.Join(keys, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[name]
	if p == nil {
		p = &pool{
			name: name, keys: slices.Clone(keys), turn: make(chan struct{}, 1),
			busy: make(chan struct{}, 1), watches: make([]*line.Watch, len(keys)),
			wake: make(chan struct{}, 1),
		}
		c.pools[name] = p
	}
	p.calls++
	return p
}

// part counts a call out. The last one ends the watches.
func (c *Calls) part(p *pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.calls--; p.calls > 0 {
		return
	}
	delete(c.pools, p.name)
	for i := range p.watches {
		p.unwatch(i)
	}
}

// lineUp waits until the call is the first in the line of its pool, or ends. leave leaves the line.
func (c *Calls) lineUp(ctx context.Context, p *pool) (leave func()) {
	p.waiting.Add(1)
	c.anyWaiting.Add(1)
	first := false
	select {
	case p.turn <- struct{}{}:
		first = true
	case <-ctx.Done():
	case <-c.locker.Open.Done():
	}
	return func() {
		p.waiting.Add(-1)
		c.anyWaiting.Add(-1)
		if first {
			<-p.turn
		}
	}
}

// untilFree returns the time until so many keys may be free: 0 if they may be now. A key may be
// free when it has changed, or its node has none, or does not answer. But if tries fail all the
// time, that is of no use: futile is how many tries in a row failed. pushes: nodes will report the
// next change of each key.
func (p *pool) untilFree(count int, futile *int) (left time.Duration, pushes bool) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	held := true
	left, pushes = line.Forever, true
	for i, w := range p.watches {
		if w == nil {
			held, pushes = false, false
			continue
		}
		is, active := w.State()
		if active && is.Left() > 0 { // or the answer is to come
			left = min(left, is.Left())
			held, pushes = held && is.Known, pushes && is.Known && !is.Silent
			continue
		}
		held = false
		p.unwatch(i)
		if !slices.Contains(p.free, p.keys[i]) {
			p.free = append(p.free, p.keys[i])
		}
	}
	switch {
	case held:
		*futile = 0 // the next change is a new one
	case *futile > maxFutile:
		return line.Forever, false
	}
	if len(p.free) >= count {
		left = 0
	}
	return left, pushes
}

// watch watches each key that is not being watched, where it is held, unless so many keys may be
// free now.
func (p *pool) watch(count int, mux *parts.Mux) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	if len(p.free) >= count {
		return
	}
	for i, key := range p.keys {
		if p.watches[i] != nil {
			continue
		}
		node := cmp.Or(p.heldAt[key], mux.Arbiter(key, 0, 0))
		if node != nil {
			p.watches[i] = node.Watch(key, 0, func() { wakeUp(p.wake) })
		}
	}
}

func (p *pool) unwatch(i int) {
	if p.watches[i] != nil {
		p.watches[i].Close()
		p.watches[i] = nil
	}
}

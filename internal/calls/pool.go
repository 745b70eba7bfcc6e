package calls

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/parts"
)

// maxFutile is how many tries in a row may follow changes of the keys and fail. After that the call
// waits for its delay, as if no node reported changes.
const maxFutile = 6

// pools has the calls of AcquireAny that are under way, by their keys.
type pools struct {
	mu      sync.Mutex // guards all below, and the calls and the line of each pool; a leaf
	byKeys  map[string]*pool
	waiting int
}

// pool is what the calls for some of the same keys share.
type pool struct {
	name  string // in byKeys
	keys  []string
	calls int       // that have joined
	line  list.List // of calls that wait, in the order of arrival: see turnOf

	busy   chan struct{}  // of capacity 1: guards all below
	free   []string       // keys that may be free, in a random order, and that no call has chosen
	heldAt map[string]int // a node that has a key, for Mux.Line

	// For the first call in the line. watched: a change of the key is still to come.
	wake    chan struct{}
	watches []*line.Watch // of each key; nil before it was watched
	watched []bool
}

// join counts a call in. lined: other calls wait for the keys.
func (q *pools) join(keys []string) (p *pool, lined bool) {
	name := strings.Join(keys, "\x00")
	q.mu.Lock()
	defer q.mu.Unlock()
	p = q.byKeys[name]
	if p == nil {
		p = &pool{
			name: name, keys: slices.Clone(keys), busy: make(chan struct{}, 1),
			wake: make(chan struct{}, 1),
		}
		if q.byKeys == nil {
			q.byKeys = make(map[string]*pool)
		}
		q.byKeys[name] = p
	}
	p.calls++
	return p, p.line.Len() > 0
}

// part counts a call out. The last one ends the watches.
func (q *pools) part(p *pool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.calls--; p.calls == 0 {
		delete(q.byKeys, p.name)
		for _, w := range p.watches {
			if w != nil {
				w.Close()
			}
		}
	}
}

// enter puts a call into the line.
func (q *pools) enter(p *pool) (place *list.Element) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting++
	place = p.line.PushBack(make(chan struct{}))
	if p.line.Front() == place {
		close(turnOf(place))
	}
	return place
}

// turnOf returns the channel that is closed when it is the turn of the call in this place.
func turnOf(place *list.Element) chan struct{} { return place.Value.(chan struct{}) }

// leave takes a call out of the line.
func (q *pools) leave(p *pool, place *list.Element) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting--
	first := p.line.Front() == place
	p.line.Remove(place)
	if next := p.line.Front(); first && next != nil {
		close(turnOf(next))
	}
}

// Waiting returns how many calls are in a line.
func (q *pools) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// untilFree returns the time until so many keys may be free: 0 if they may be now. A key may be
// free when it has changed, or its node has none, or does not answer. But if tries fail all the
// time, that is of no use: futile is how many tries in a row failed. pushes: nodes will report the
// next change of each key. If mux is not nil, untilFree first watches each key of which it knows
// nothing.
func (p *pool) untilFree(count int, futile *int, mux *parts.Mux) (left time.Duration, pushes bool) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	if mux != nil && len(p.free) < count {
		p.watch(mux)
	}
	held := true
	left, pushes = noTimer, true
	for i, w := range p.watches {
		if w == nil {
			held, pushes = false, false
			continue
		}
		is, active := w.State()
		ends := is.Left()
		if p.watched[i] && (!active || is.Known && ends == 0) {
			p.watched[i] = false
			if !slices.Contains(p.free, p.keys[i]) {
				p.free = append(p.free, p.keys[i])
			}
		}
		if isHeld := is.Known && ends > 0; isHeld {
			left = min(left, ends)
		} else {
			held = false
		}
		pushes = pushes && is.Known && !is.Silent
	}
	switch {
	case held:
		*futile = 0 // the next change is a new one
	case *futile > maxFutile:
		return noTimer, false
	}
	if len(p.free) >= count {
		left = 0
	}
	return left, pushes
}

// watch watches each key that is not being watched, where it is held. busy is held.
func (p *pool) watch(mux *parts.Mux) {
	if p.watches == nil {
		p.watched, p.watches = make([]bool, len(p.keys)), make([]*line.Watch, len(p.keys))
	}
	for i, key := range p.keys {
		if p.watched[i] {
			continue
		}
		node, has := p.heldAt[key]
		if !has {
			node = mux.Arbiter(key, 0, 0)
		}
		if node >= 0 {
			if p.watches[i] != nil {
				p.watches[i].Close()
			}
			p.watched[i] = true
			p.watches[i] = mux.Line(key, node).Watch(key, 0, func() {
				select {
				case p.wake <- struct{}{}:
				default:
				}
			})
		}
	}
}

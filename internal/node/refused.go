package node

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
)

// noteRefused remembers a key that the server says is held, if it matters for its commands.
func (f *Flush) noteRefused(at, key int) {
	if o := f.Ops[at].Op(); o.Kind == Acquire && f.set&link.MSETEX != 0 {
		f.node.group.refused.add(o.Keys.All()[key], time.Now())
	}
}

const (
	// refusedTTL is how long the client remembers that a node has refused a key.
	refusedTTL = time.Second
	// maxRefused is how many such keys it remembers.
	maxRefused = 1 << 12
)

// refusedKeys are the keys that some node has refused lately: others want them too. They are left
// out of MSETEX, because each would cost all keys of its command a second trip. The zero value is
// ready.
type refusedKeys struct {
	known atomic.Bool // there may be some; written under mu

	mu    sync.Mutex // guards until; a leaf
	until map[string]time.Time
}

// add notes that a node has refused a key.
func (k *refusedKeys) add(key string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.until[key]; k.until == nil || !known && len(k.until) >= maxRefused {
		k.until = make(map[string]time.Time) // a trip more for each of the others is no harm
	}
	// The key shares its memory with a token, and the map keeps the newest one.
	k.until[strings.Clone(key)] = now.Add(refusedTTL)
	k.known.Store(true)
}

// hasAny reports whether one of the keys was refused lately.
func (k *refusedKeys) hasAny(keys []string, now time.Time) bool {
	if !k.known.Load() {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		until, ok := k.until[key]
		switch {
		case ok && now.Before(until):
			return true
		case ok:
			delete(k.until, key)
		}
	}
	k.known.Store(len(k.until) > 0)
	return false
}

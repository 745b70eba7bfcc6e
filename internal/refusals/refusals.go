// Package refusals remembers for a short time which keys nodes have refused.
package refusals

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// remembered is how long the client remembers that a node has refused a key.
	remembered = time.Second
	// maxKeys is how many such keys it remembers.
	maxKeys = 1 << 12
)

// Keys are the keys that some node has refused lately: others want them too. The zero value is
// ready. It is safe for concurrent use.
type Keys struct {
	known atomic.Bool // there may be some; written under mu

	mu    sync.Mutex // guards until; a leaf
	until map[string]time.Time
}

// Add notes that a node has refused a key.
func (k *Keys) Add(key string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.until[key]; k.until == nil || !known && len(k.until) >= maxKeys {
		k.until = make(map[string]time.Time) // a trip more for each of the others is no harm
	}
	// The key shares its memory with a token, and the map keeps the newest one.
	k.until[strings.Clone(key)] = now.Add(remembered)
	k.known.Store(true)
}

// HasAny reports whether one of the keys was refused lately.
func (k *Keys) HasAny(keys []string, now time.Time) bool {
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

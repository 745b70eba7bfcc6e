package kit

import (
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
)

// Ending is one call of OnLost.
type Ending struct {
	Lease *lockpipe.Lease
	Err   error
	At    time.Time
}

// Endings are the calls of OnLost, in order.
type Endings struct {
	mu   sync.Mutex
	list []Ending // guarded by mu
}

// Tell is an OnLost.
func (e *Endings) Tell(l *lockpipe.Lease, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, Ending{l, err, time.Now()})
}

// All returns the calls until now.
func (e *Endings) All() []Ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Ending{}, e.list...)
}

// Of returns the calls for one lease.
func (e *Endings) Of(l *lockpipe.Lease) (told []Ending) {
	for _, end := range e.All() {
		if end.Lease == l {
			told = append(told, end)
		}
	}
	return told
}

// OnLost changes what is called when a lease is over.
func OnLost(f func(*lockpipe.Lease, error)) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.OnLost = f }
}

// Auto is for a lease that is extended automatically.
func Auto(ttl, maxHold time.Duration) []lockpipe.Option {
	return []lockpipe.Option{lockpipe.WithTTL(ttl), lockpipe.WithAutoExtend(maxHold)}
}

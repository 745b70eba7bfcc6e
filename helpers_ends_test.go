package lockpipe_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

const (
	autoTTL = 10 * time.Second
)

// ending is one call of OnLost.
type ending struct {
	lease *lockpipe.Lease
	err   error
	at    time.Time
}

// endings are the calls of OnLost, in order.
type endings struct {
	mu   sync.Mutex
	list []ending // guarded by mu
}

// tell is an OnLost.
func (e *endings) tell(l *lockpipe.Lease, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ending{l, err, time.Now()})
}

func (e *endings) all() []ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]ending{}, e.list...)
}

// of returns the calls for one lease.
func (e *endings) of(l *lockpipe.Lease) (told []ending) {
	for _, end := range e.all() {
		if end.lease == l {
			told = append(told, end)
		}
	}
	return told
}

// onLost changes what is called when a lease is over.
func onLost(f func(*lockpipe.Lease, error)) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.OnLost = f }
}

// auto is for a lease that is extended automatically.
func auto(ttl, maxHold time.Duration) []lockpipe.Option {
	return []lockpipe.Option{lockpipe.WithTTL(ttl), lockpipe.WithAutoExtend(maxHold)}
}

// heldEverywhere wants the lease's key on each node, for a while to come.
func heldEverywhere(t *testing.T, v *fakeNodes, l *lockpipe.Lease) {
	t.Helper()
	lasting(t, l)
	for i := range v.nodes {
		require.Equal(t, l.Token(), v.get(i, l.Key()), "node %d", i)
		require.Positive(t, v.ttl(i, l.Key()), "node %d", i)
	}
}

package leases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// handovers are hand-overs of one key after another, from client to client.
type handovers struct {
	t       *testing.T
	clients []*lockpipe.Client
	stopped atomic.Bool

	mu     sync.Mutex // guards all below
	holder map[string]*lockpipe.Lease
	kept   map[string]time.Time // until when nobody may acquire the key
	counts map[string]int
}

// granted records a lease, and wants it to be the only one of its key.
func (h *handovers) granted(l *lockpipe.Lease, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[how]++
	if before := h.holder[l.Key()]; before != nil && before.Err() == nil && l.Err() == nil {
		h.t.Errorf("two holders of %s: %s and %s", l.Key(), before.Token(), l.Token())
	}
	if how == "acquired" && l.Err() == nil && time.Now().Before(h.kept[l.Key()]) {
		h.t.Errorf("%s is acquired, and kept for another %v", l.Key(),
			time.Until(h.kept[l.Key()]))
	}
	if how == "adopted" {
		delete(h.kept, l.Key()) // from now on its time is that of the lease
	}
	h.holder[l.Key()] = l
}

// setKept records until when the key of a lease is kept, and wants nobody to have taken it since.
func (h *handovers) setKept(l *lockpipe.Lease, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holder[l.Key()] != l {
		h.t.Errorf("%s is acquired while it becomes kept", l.Key())
	}
	h.kept[l.Key()] = until
}

// upTo returns a random time below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

func (h *handovers) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// acquire takes the key for the first time, as others try all the time.
func (h *handovers) acquire(c *lockpipe.Client, key string) *lockpipe.Lease {
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
	defer cancel()
	l, err := c.TryAcquire(ctx, key, lockpipe.WithTTL(2*time.Second))
	if err != nil {
		return nil
	}
	h.granted(l, "acquired")
	return l
}

// adopt hands a lease to one of several clients that want it, and returns the one that it got.
func (h *handovers) adopt(l *lockpipe.Lease, rng *rand.Rand) *lockpipe.Lease {
	const keptFor = 4 * time.Second
	handle, key, began := l.Handle(), l.Key(), time.Now()
	err := l.Keep(h.t.Context(), keptFor)
	if !errors.Is(l.Err(), lockpipe.ErrKept) { // it was over before
		return nil
	}
	if err == nil {
		h.setKept(l, began.Add(keptFor*98/100))
	}
	h.count(fmt.Sprint("kept ", err == nil))
	for range 8 {
		var all []<-chan *lockpipe.Lease
		for range 1 + rng.IntN(3)*rng.IntN(2) {
			c, pause := h.clients[rng.IntN(len(h.clients))], upTo(rng, 3*time.Millisecond)
			all = append(all, kit.Later(func() *lockpipe.Lease {
				time.Sleep(pause)
				l, err := c.Adopt(h.t.Context(), handle, lockpipe.WithTTL(2*time.Second))
				if err != nil {
					return nil
				}
				h.granted(l, "adopted")
				return l
			}))
		}
		var won []*lockpipe.Lease
		for _, one := range all {
			if l := <-one; l != nil {
				won = append(won, l)
			}
		}
		if len(won) > 1 {
			h.t.Errorf("%d have adopted %s from one handle", len(won), key)
		}
		if len(won) > 0 {
			return won[0]
		}
		h.count("again")
		time.Sleep(upTo(rng, 200*time.Millisecond))
	}
	h.count("given up")
	return nil
}

// run makes so many hand-overs of a key.
func (h *handovers) run(key string, n int, rng *rand.Rand) {
	for made := 0; made < n; {
		l := h.acquire(h.clients[rng.IntN(len(h.clients))], key)
		if l == nil {
			time.Sleep(upTo(rng, 50*time.Millisecond))
			continue
		}
		for ; l != nil && made < n; made++ {
			l = h.adopt(l, rng)
		}
		if l != nil {
			_ = l.Release(h.t.Context())
		}
	}
}

// disturb lets one node after the other fail, hang or lose its connections.
func (h *handovers) disturb(v *kit.FakeNodes, rng *rand.Rand) {
	for !h.stopped.Load() {
		i := rng.IntN(len(v.Nodes))
		switch rng.IntN(4) {
		case 0:
			v.Fail(i, kit.OutOfMemory)
		case 1:
			v.Silence(i)
		case 2:
			v.Drop(i)
		}
		time.Sleep(upTo(rng, 60*time.Millisecond))
		v.Heal(i)
		v.Speak(i)
		time.Sleep(upTo(rng, 20*time.Millisecond))
	}
}

// The goal: 750 times a key goes from one client to another while nodes fail, hang and lose
// connections, and others try to take it. Nobody else gets it in between, and it never has two
// holders. The simulation does the same with more faults.
func TestAdopt_HundredsOfTimes(t *testing.T) {
	t.Parallel()
	kit.SkipIfShort(t, "750 hand-overs")
	const keys, each = 25, 15
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := kit.NewFakeNodes(t, 3)
				v.Latency(time.Millisecond)
				h := &handovers{
					t: t, holder: map[string]*lockpipe.Lease{}, kept: map[string]time.Time{},
					counts: map[string]int{},
				}
				for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
					h.clients = append(h.clients, v.Client(t, v.InOrder(order...),
						kit.Timeout(20*time.Millisecond)))
				}
				var chains, others sync.WaitGroup
				for k := range keys {
					key := fmt.Sprint("k", k)
					chains.Go(func() { h.run(key, each, rand.New(rand.NewPCG(seed, uint64(k)))) })
					others.Go(func() {
						rng := rand.New(rand.NewPCG(seed, uint64(100+k)))
						for !h.stopped.Load() {
							if l := h.acquire(h.clients[rng.IntN(3)], key); l != nil {
								_ = l.Release(t.Context())
							}
							time.Sleep(upTo(rng, 20*time.Millisecond))
						}
					})
				}
				others.Go(func() { h.disturb(v, rand.New(rand.NewPCG(seed, 200))) })
				chains.Wait()
				h.stopped.Store(true)
				others.Wait()
				t.Log(h.counts)
				require.Greater(t, h.counts["adopted"], keys*each*2/3)
			})
		})
	}
}

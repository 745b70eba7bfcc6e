package calls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: contexts, leases, attempts and the client may end at the same moment. done is called
// exactly once for every call, no two calls hold a key at once, and no node keeps a key without a
// holder.
func TestAsync_DoneIsCalledOnceForEachCall(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3)
			v.Latency(time.Duration(seed/4) * 2 * time.Millisecond)
			all := &randomCalls{
				random: rand.New(rand.NewPCG(seed, 3)),
				holder: map[string]*lockpipe.Lease{}, short: seed%4 == 3,
			}
			var clients []*lockpipe.Client
			for range 3 {
				clients = append(clients, v.Client(t, kit.Timeout(50*time.Millisecond)))
			}
			for i := range 150 {
				all.call(t, clients[all.draw(len(clients))])
				if all.draw(3) == 0 {
					time.Sleep(time.Duration(all.draw(4)) * time.Millisecond)
				}
				switch {
				case i%30 == 10 && seed%2 == 0:
					v.Silence(i % 3)
				case i%30 == 25 && seed%2 == 0:
					v.Speak((i - 15) % 3)
				case i == 120 && seed%3 == 0:
					closing := clients[1]
					go func() { _ = closing.Close(context.Background()) }()
				}
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			all.mu.Lock()
			defer all.mu.Unlock()
			require.Equal(t, all.calls, all.told, "seed %d", seed)
			v.NothingLeft(t)
		})
	}
}

// randomCalls are the callers of one run.
type randomCalls struct {
	short bool // leases may run out; else what is left over is there for long

	mu     sync.Mutex // guards all below
	random *rand.Rand
	calls  int
	told   int
	holder map[string]*lockpipe.Lease
}

func (w *randomCalls) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// call makes one call, of which some end at the very moment at which others do: all times are whole
// milliseconds.
func (w *randomCalls) call(t *testing.T, c *lockpipe.Client) {
	keys := [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}}[w.draw(4)]
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	switch w.draw(3) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.draw(60))*time.Millisecond)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(time.Duration(w.draw(200))*time.Millisecond, cancel)
	}
	ttl := kit.LongTTL
	if w.short {
		ttl = time.Duration(20+w.draw(200)) * time.Millisecond
	}
	opts := []lockpipe.Option{lockpipe.WithTTL(ttl), lockpipe.WithMaxAttempts([]int{
		0, 0, 0,
		3,
	}[w.draw(4)])}
	hold := time.Duration(w.draw(6)) * time.Millisecond
	told := false
	w.mu.Lock()
	w.calls++
	w.mu.Unlock()
	err := c.AcquireAsync(ctx, keys, func(l *lockpipe.Lease, err error) {
		defer cancel()
		w.mu.Lock()
		if w.told++; told || (l == nil) == (err == nil) {
			t.Error("told twice, or neither lease nor error", l, err)
		}
		told = true
		if l != nil && l.Err() == nil {
			for _, k := range keys {
				if other := w.holder[k]; other != nil && other.Err() == nil && l.Err() == nil {
					t.Error("two hold", k)
				}
				w.holder[k] = l
			}
		}
		w.mu.Unlock()
		if l == nil {
			return
		}
		time.Sleep(hold)
		if err := l.Release(context.Background()); err != nil &&
			!errors.Is(err, lockpipe.ErrExpired) && !errors.Is(err, lockpipe.ErrClosed) &&
			!errors.Is(err, lockpipe.ErrNoQuorum) {
			t.Error(fmt.Sprint("release: ", err))
		}
	}, opts...)
	if err != nil { // the call must not be notified
		cancel()
		w.mu.Lock()
		w.calls--
		w.mu.Unlock()
		if !kit.AnyOf(err, lockpipe.ErrClosed, context.DeadlineExceeded, context.Canceled) {
			t.Error(err)
		}
	}
}

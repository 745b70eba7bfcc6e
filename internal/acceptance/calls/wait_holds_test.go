package calls

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a call that waits for a and b does not keep b, which is free, from the holder of a for
// longer than a reservation.
func TestWait_ASetDoesNotBlockTheHolderOfAPart(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		a := kit.Take(t, c, "a", lockpipe.WithAutoExtend(time.Hour))
		both := kit.Wanted(t, c, []string{"a", "b"})
		begin := time.Now()
		b := kit.Take(t, c, "b")
		require.LessOrEqual(t, time.Since(begin), 10*time.Millisecond)
		require.NoError(t, c.ReleaseAll(t.Context(), a, b))
		l := <-both
		require.NotNil(t, l)
		require.NoError(t, l.Release(t.Context()))
		v.NothingLeft(t)
	})
}

// The goal: the next call for any key of a lease asks the nodes before they have answered the
// release.
func TestWait_ATurnDoesNotWaitForTheAnswerToTheRelease(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		first := kit.Take(t, c, "hot")
		got := kit.QueueFor(t.Context(), c, []string{"hot", "a"})
		next := kit.QueueFor(t.Context(), c, []string{"b", "hot"})
		kit.Release(t, first)
		time.Sleep(60 * time.Millisecond)
		l := kit.Granted(t, got)
		kit.Waits(t, next)
		before := c.Stats().Attempts
		v.Silence(0, 1, 2)
		released := kit.Later(func() error { return l.Release(t.Context()) })
		synctest.Wait()
		require.Equal(t, before+1, c.Stats().Attempts)
		v.Speak(0, 1, 2)
		require.NoError(t, <-released)
		kit.Release(t, kit.Granted(t, next))
		v.NothingLeft(t)
	}, kit.Timeout(time.Second))
}

// The goal: callers of sets that overlap all make progress, and no two of them hold a key at once.
func TestWait_OverlappingSetsMakeProgress(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		const callers, rounds = 8, 25
		var mu sync.Mutex
		holders := map[string]int{}
		enter := func(keys []string, change int) {
			mu.Lock()
			defer mu.Unlock()
			for _, k := range keys {
				if holders[k] += change; holders[k] > 1 {
					t.Errorf("%s is held twice", k)
				}
			}
		}
		var all sync.WaitGroup
		start := time.Now()
		for _, keys := range [][]string{{"1", "2"}, {"2", "3"}, {"3", "1"}} {
			for range callers {
				all.Go(func() {
					for range rounds {
						l, err := c.AcquireAll(t.Context(), keys)
						if err != nil {
							t.Error(err)
							return
						}
						enter(keys, 1)
						time.Sleep(rand.N(2 * time.Millisecond))
						enter(keys, -1)
						if err := l.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		require.Less(t, time.Since(start), 3*callers*rounds*60*time.Millisecond)
		v.NothingLeft(t)
		require.Zero(t, c.Stats().Held)
	})
}

// hold is the time for which a caller may have relied on a key.
type hold struct {
	from, to time.Time
	who      int
}

// holds collects them.
type holds struct {
	mu  sync.Mutex
	all map[string][]hold
}

func (h *holds) add(keys []string, one hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range keys {
		h.all[k] = append(h.all[k], one)
	}
}

// disjoint wants no key to have been held twice at any time, and returns how many holds there were.
func (h *holds) disjoint(t *testing.T) (count int) {
	t.Helper()
	for key, all := range h.all {
		slices.SortFunc(all, func(a, b hold) int {
			return cmp.Or(a.from.Compare(b.from),
				a.to.Compare(b.to))
		})
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			require.False(t, b.from.Before(a.to), "%s: %d held it for %v more when %d got it", key,
				a.who, a.to.Sub(b.from), b.who)
		}
		count += len(all)
	}
	return count
}

// turn is what a caller of the stress does once: it takes some keys somehow, holds and extends them
// at random, and lets go somehow.
func (h *holds) turn(t *testing.T, c *lockpipe.Client, who int) {
	keys := []string{"a", "b", "c"}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+rand.N(6)/4]
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond+rand.N(2*time.Second))
	defer cancel()
	ttl := 20*time.Millisecond + rand.N(500*time.Millisecond)
	opts := []lockpipe.Option{lockpipe.WithTTL(ttl)}
	if rand.N(4) == 0 {
		opts = append(opts, lockpipe.WithAutoExtend(ttl+rand.N(time.Second)))
	}
	acquire := c.AcquireAll
	switch rand.N(8) {
	case 0:
		acquire = c.TryAcquireAll
	case 1, 2, 3:
		acquire = kit.WaitForAsync(c)
	}
	l, err := acquire(ctx, keys, opts...)
	from := time.Now()
	if err != nil {
		if !kit.AnyOf(err, lockpipe.ErrHeld, lockpipe.ErrNoQuorum, context.DeadlineExceeded) {
			t.Error(err)
		}
		return
	}
	to := l.Until() // it may have been over when it was returned
	for range rand.N(4) {
		time.Sleep(rand.N(10 * time.Millisecond))
		if rand.N(12) == 0 {
			time.Sleep(rand.N(600 * time.Millisecond)) // it may run out
		}
		if rand.N(4) > 0 {
			continue
		}
		before := time.Now()
		_ = l.Extend(ctx, 10*time.Millisecond+rand.N(400*time.Millisecond))
		if until := l.Until(); !until.IsZero() {
			to = until
		} else if before.Before(to) {
			to = before // it may have been shortened and have run out
		}
	}
	if now := time.Now(); l.Err() == nil || now.Before(to) {
		to = now
	}
	if from.Before(to) {
		h.add(keys, hold{from, to, who})
	}
	leave := l.Release
	if rand.N(4) == 0 {
		leave = func(ctx context.Context) error { return c.ReleaseAll(ctx, l, l) }
	}
	if rand.N(8) == 0 {
		go func() { _ = l.Release(t.Context()) }()
	}
	_ = leave(ctx)
	if rand.N(4) == 0 {
		time.Sleep(rand.N(20 * time.Millisecond))
		_ = l.Extend(ctx, time.Second)
		_ = l.Release(t.Context())
	}
}

// The goal: whatever callers of two clients do, the times for which they may rely on a key never
// overlap, everybody comes to an end, and no key and no goroutine is left; also while one node
// after the other stops for a while.
func TestWait_HoldsNeverOverlap(t *testing.T) {
	t.Parallel()
	rounds := 30
	if testing.Short() {
		rounds = 15
	}
	for name, trouble := range map[string]bool{"all nodes up": false, "a node stops": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := kit.NewFakeNodes(t, 3)
				v.Latency(300 * time.Microsecond)
				clients := []*lockpipe.Client{v.Client(t), v.Client(t)}
				h := &holds{all: map[string][]hold{}}
				var all sync.WaitGroup
				for who := range 16 {
					all.Go(func() {
						for range rounds {
							h.turn(t, clients[who%2], who)
						}
					})
				}
				over := kit.Later(func() bool { all.Wait(); return true })
				for done := false; !done; {
					if trouble {
						i := rand.N(3)
						v.Silence(i)
						time.Sleep(rand.N(200 * time.Millisecond))
						v.Speak(i)
					}
					select {
					case done = <-over:
					case <-time.After(rand.N(200 * time.Millisecond)):
					}
				}
				time.Sleep(15 * time.Second) // also what was kept for a node that stopped
				for _, c := range clients {
					require.Zero(t, c.Stats().Held)
					require.Positive(t, c.Stats().Extended)
					require.Positive(t, c.Stats().Handovers)
					require.True(t, kit.QueueIdle(c, "a", "b", "c"), "a key is owned for ever")
				}
				v.NothingLeft(t)
				require.Greater(t, h.disjoint(t), rounds)
			})
		})
	}
}

// busy lets callers take a key again and again until over is closed, each for a millisecond. A
// caller that released the key comes back at once. all counts the callers.
func busy(t *testing.T, c *lockpipe.Client, key string, callers int, over <-chan struct{},
	all *sync.WaitGroup,
) {
	for range callers {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				l, err := c.Acquire(t.Context(), key)
				if err != nil {
					return // the test has failed, and its client is closed
				}
				time.Sleep(time.Millisecond)
				_ = l.Release(t.Context())
			}
		})
	}
}

// The goal: a call for a set of keys is granted within a second, if crowds of callers take each of
// the keys all the time. A member of a crowd waits for some ten milliseconds. The nodes of this
// test cannot push changes of keys to the client.
func TestWait_ASetIsServedNextToCrowdsForItsKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.Latency(300 * time.Microsecond)
		c := v.Client(t)
		over := make(chan struct{})
		var all sync.WaitGroup
		defer all.Wait()
		defer close(over)
		busy(t, c, "a", 8, over, &all)
		busy(t, c, "b", 8, over, &all)
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			l, err := c.AcquireAll(ctx, []string{"a", "b"})
			cancel()
			require.NoError(t, err)
			kit.Release(t, l)
		}
	})
}

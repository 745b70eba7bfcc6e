package groups

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// groupCallers take overlapping sets of keys of several groups, in any order and by any call, and
// check that no two hold a key at once.
type groupCallers struct {
	keys  []string
	fault bool // calls may fail, and leases may be lost

	fences fence.Checker

	mu      sync.Mutex // guards all below
	random  *rand.Rand
	holders map[string]*lockpipe.Lease
	granted int
}

func newGroupCallers(c *lockpipe.Client, seed uint64) *groupCallers {
	return &groupCallers{
		keys: slices.Concat(
			kit.OneOfEach(c, "x", "a", "b", "c"), kit.OneOfEach(c, "y", "c", "a"), kit.OneOfEach(c,
				"z", "b"),
		),
		random:  rand.New(rand.NewPCG(seed, 7)),
		holders: map[string]*lockpipe.Lease{},
	}
}

func (g *groupCallers) draw(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.random.IntN(n)
}

// some returns a few of the keys, in any order.
func (g *groupCallers) some() (keys []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, i := range g.random.Perm(len(g.keys))[:1+g.random.IntN(4)] {
		keys = append(keys, g.keys[i])
	}
	return keys
}

// hold uses a lease for a time, and checks that no other lasts on its keys, and that fences rise.
func (g *groupCallers) hold(t *testing.T, l *lockpipe.Lease, d time.Duration) {
	fenced := l.Fence() > 0
	g.mu.Lock()
	g.granted++
	for _, key := range l.Keys() {
		if other := g.holders[key]; l.Err() == nil && other != nil && other.Err() == nil {
			t.Errorf("two hold %s", key)
		}
		g.holders[key] = l
		if fenced && l.Err() == nil && !g.fences.Allow(key, l.Fence()) {
			t.Errorf("the fence %d of %s is not above those before it", l.Fence(), key)
		}
	}
	g.mu.Unlock()
	time.Sleep(d)
	if err := l.Err(); err != nil && !g.fault {
		t.Error("a lease is lost: ", err)
	}
}

func (g *groupCallers) give(t *testing.T, l *lockpipe.Lease) {
	if err := l.Release(context.Background()); err != nil && !g.fault {
		t.Error("release: ", err)
	}
}

// fenceTooLow reports whether other clients were quicker than a Try again and again, each time with
// a higher fence.
func fenceTooLow(err error) bool {
	return errors.Is(err, lockpipe.ErrNoQuorum) && strings.Contains(err.Error(), "a fence of ")
}

// call makes one call of any kind.
func (g *groupCallers) call(ctx context.Context, t *testing.T, c *lockpipe.Client) {
	keys, hold := g.some(), time.Duration(g.draw(3000))*time.Microsecond
	var opts []lockpipe.Option
	if g.draw(2) == 0 {
		opts = append(opts, lockpipe.WithFencing())
	}
	l, err := (*lockpipe.Lease)(nil), error(nil)
	switch kind := g.draw(6); kind {
	case 0:
		l, err = c.TryAcquireAll(ctx, keys, opts...)
	case 1, 2:
		l, err = c.AcquireAll(ctx, keys, opts...)
	case 3:
		l, err = kit.WaitForAsync(c)(ctx, keys, opts...)
	case 4:
		err = c.DoAll(ctx, keys, func(_ context.Context, l *lockpipe.Lease) error {
			g.hold(t, l, hold)
			return nil
		}, opts...)
	case 5:
		for _, r := range c.TryAcquireEach(ctx, keys, opts...) {
			if r.Lease != nil {
				g.hold(t, r.Lease, hold)
				g.give(t, r.Lease)
			}
		}
	}
	if l != nil {
		g.hold(t, l, hold)
		g.give(t, l)
	}
	if err != nil && !g.fault && !errors.Is(err, lockpipe.ErrHeld) && !fenceTooLow(err) {
		t.Error("call: ", err)
	}
}

// run has each of the clients make calls on that many goroutines.
func (g *groupCallers) run(ctx context.Context, t *testing.T, clients []*lockpipe.Client,
	workers, calls int,
) {
	var all sync.WaitGroup
	for _, c := range clients {
		for range workers {
			all.Go(func() {
				for range calls {
					g.call(ctx, t, c)
				}
			})
		}
	}
	all.Wait()
}

// The goal: many callers of several clients take overlapping sets of keys of several groups by all
// calls. No two hold a key at once, every waiting call is granted in bounded time, fences rise, and
// nothing is left.
func TestGroups_NoTwoHoldAKey(t *testing.T) {
	kit.SkipIfShort(t, "overlapping sets over groups, in virtual time")
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3*kit.GroupSize)
			v.Latency(time.Duration(seed%3) * time.Millisecond)
			clients := []*lockpipe.Client{
				v.Client(t, kit.InGroups(kit.GroupSize)), v.Client(t, kit.InGroups(kit.GroupSize)),
				v.Client(t, kit.InGroups(kit.GroupSize)),
			}
			kit.ShiftClock(clients[1], -5*time.Minute)
			g := newGroupCallers(clients[0], seed)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			g.run(ctx, t, clients, 3, 15)
			require.NoError(t, ctx.Err(), "calls wait for ever")
			require.Greater(t, g.granted, 60)
			time.Sleep(time.Second) // what is on its way arrives
			v.OnlyCompanions(t)
		})
	}
}

// The goal: the same while groups stop and continue, callers give up, and clients close. No two
// hold a key at once, no call hangs, and nothing is left.
func TestGroups_NoTwoHoldAKeyWhileGroupsFail(t *testing.T) {
	kit.SkipIfShort(t, "overlapping sets over groups that fail")
	t.Parallel()
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3*kit.GroupSize)
			v.Latency(time.Duration(seed%2) * time.Millisecond)
			var clients []*lockpipe.Client
			for range 3 {
				clients = append(clients, v.Client(t, kit.InGroups(kit.GroupSize),
					kit.Timeout(20*time.Millisecond), func(cfg *lockpipe.Config) {
						cfg.TTL = 300 * time.Millisecond
					}))
			}
			g := newGroupCallers(clients[0], seed)
			g.fault = true
			over := kit.Later(func() bool {
				for i := range 8 {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					g.run(ctx, t, clients, 3, 6)
					cancel()
					if i == 6 {
						_ = clients[2].Close(t.Context())
					}
				}
				return true
			})
			for i, ended := 0, false; !ended; i++ {
				group := kit.MembersOf([]string{"a", "b", "c"}[i%3])
				some := group[:1+i%3]
				v.Silence(some...)
				time.Sleep(time.Duration(g.draw(400)) * time.Millisecond)
				v.Speak(some...)
				select {
				case ended = <-over:
				case <-time.After(time.Duration(1+g.draw(100)) * time.Millisecond):
				}
				require.Less(t, i, 2000, "calls hang")
			}
			require.Greater(t, g.granted, 50)
			v.SoonOnlyCompanions(t)
		})
	}
}

// The goal: it is so on real servers, which push changes of keys.
func TestGroups_NoTwoHoldAKeyOnServers(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	var clients []*lockpipe.Client
	for range 3 {
		clients = append(clients, grouped(t, nodes))
	}
	g := newGroupCallers(clients[0], 1)
	g.run(t.Context(), t, clients, 4, 15)
	require.Positive(t, g.granted)
	for _, c := range clients {
		require.Zero(t, c.Stats().Held)
		require.Zero(t, c.Stats().Waiters)
	}
	kit.NothingLeft(t, nodes)
}

package multiplex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// The goal: with attempts that break, get lost or come late in any order, two claims never hold a
// key at once. Every call ends within its timeout. When all is released nothing is left on any
// node.
func TestClaim_KeepsTheOrderOfItsAttempts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		for _, n := range []int{1, 2, 3, 5} {
			synctest.Test(t, func(t *testing.T) { simulate(t, n, seed, false) })
		}
	}
}

// The goal: the same while nodes hang for longer than NodeTimeout, and go down and come up.
func TestClaim_KeepsTheOrderOfItsAttemptsAtNodesThatComeAndGo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		for _, n := range []int{1, 2, 3, 5} {
			synctest.Test(t, func(t *testing.T) { simulate(t, n, seed, true) })
		}
	}
}

// comeAndGo lets nodes hang, and has them down, connecting or up, until the returned function is
// called.
func comeAndGo(m *Mux, seed uint64) (stop func()) {
	var all sync.WaitGroup
	over := make(chan struct{})
	for i, n := range m.nodes {
		random, hangs := rand.New(rand.NewPCG(seed, uint64(200+i))), make(chan struct{}, 1)
		trip := n.SendFlush
		n.SendFlush = func(f *node.Flush) {
			select {
			case <-hangs:
				time.Sleep(3 * m.cfg.NodeTimeout)
			default:
			}
			trip(f)
		}
		all.Go(func() {
			for {
				select {
				case <-over:
					n.Link.SetState(link.Up, nil)
					n.Resend()
					return
				case <-time.After(time.Duration(1+random.IntN(60_000)) * time.Microsecond):
				}
				switch random.IntN(5) {
				case 0:
					n.Link.SetState(link.Down, errBroken)
				case 1:
					n.Link.SetState(link.Connecting, errBroken)
				case 2:
					notify(hangs)
				default:
					n.Link.SetState(link.Up, nil)
				}
			}
		})
	}
	return func() { close(over); all.Wait() }
}

// The goal: the same for claims of clients that move from one set of nodes to another: some need
// quorums of both, and some of one alone.
func TestClaim_KeepsTheOrderOfItsAttemptsWhileClientsMove(t *testing.T) {
	t.Parallel()
	const a, b, c, d, e = 1, 2, 4, 8, 16
	for seed := range uint64(6) {
		for _, move := range [][2]quorum.Nodes{
			{a, a | b | c}, {a | b, b | c}, {a | b | c, c | d | e}, {a | b | c, d | e},
		} {
			before, after := quorum.NewSystem(move[0]), quorum.NewSystem(move[1])
			both := quorum.NewSystem(move[0], move[1])
			n := both.Nodes().Count()
			for _, one := range []quorum.System{before, after} {
				synctest.Test(t, func(t *testing.T) {
					simulate(t, n, seed, seed%2 == 1, both, one)
				})
			}
		}
	}
}

// simulate has callers acquire, extend and release. Without systems all nodes are one set.
func simulate(t *testing.T, n int, seed uint64, rough bool, systems ...quorum.System) {
	m, stores, stop := simulated(n, seed, []float64{0, 0.02, 0.2}[seed%3])
	if len(systems) > 0 {
		m.systems = systems
	}
	settle := func() {}
	if rough {
		settle = comeAndGo(m, seed)
	}
	var mu sync.Mutex
	holder := map[string]string{}
	change := func(c *Claim, from, to string) {
		mu.Lock()
		defer mu.Unlock()
		for _, k := range c.keys.All() {
			require.Equal(t, from, holder[k], "seed %d, %d nodes, key %s", seed, n, k)
			holder[k] = to
		}
	}
	var callers sync.WaitGroup
	for caller := range 6 {
		random := rand.New(rand.NewPCG(seed, uint64(100+caller)))
		callers.Go(func() {
			for i := range 40 {
				c := new(Claim)
				keys := []string{fmt.Sprint("k", random.IntN(3))}
				if random.IntN(3) == 0 {
					keys = []string{"k0", "k1", "k2"}
				}
				c.Init("", keys, fmt.Sprint(caller, "/", i), "")
				if len(systems) > 0 {
					c.UseSystem(uint8(random.IntN(len(systems))))
				}
				ctx, cancel := context.WithTimeout(context.Background(),
					time.Duration(random.IntN(30000))*time.Microsecond)
				start := time.Now()
				err := wait(m.Acquire(c, time.Minute, 1), ctx)
				cancel()
				require.LessOrEqual(t, time.Since(start), 2*m.cfg.NodeTimeout)
				if err != nil {
					continue
				}
				change(c, "", c.Token())
				for range random.IntN(3) {
					ctx, cancel := context.WithTimeout(context.Background(),
						time.Duration(random.IntN(20000))*time.Microsecond)
					extension := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
					err := wait(extension, ctx)
					cancel()
					require.NotErrorIs(t, err, ErrHeld, "nobody took it away")
				}
				change(c, c.Token(), "")
				_ = wait(m.Release(c, 1), context.Background())
			}
		})
	}
	callers.Wait()
	settle()
	for _, s := range stores {
		s.fail(0)
	}
	time.Sleep(time.Second) // the connectors' delays pass in virtual time
	synctest.Wait()
	for i, s := range stores {
		require.Empty(t, s.left(), "seed %d: left on node %d of %d", seed, i, n)
		require.Zero(t, m.log.Waiting(i))
		require.Zero(t, m.Nodes()[i].PendingReleases)
	}
	stop()
}

// The goal: a claim that is released takes no further extension, whichever comes first to the lock.
func TestClaim_NothingFollowsARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("p:", []string{"k"}, "token", "")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		first := m.Release(c, 1)
		require.ErrorIs(t, wait(m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1),
			t.Context()), ErrNoQuorum)
		require.Same(t, first, m.Release(c, 1))
		require.NoError(t, wait(first, t.Context()))
		require.NoError(t, wait(first, t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		for _, s := range stores {
			require.Empty(t, s.left())
		}
		stop()
	})
}

// The goal: a node that comes up or goes down meanwhile loses no attempt.
func TestClaim_NoAttemptIsLostWhenANodeComesUp(t *testing.T) {
	t.Parallel()
	m, _, stop := simulated(1, 1, 0)
	defer stop()
	n := m.nodes[0]
	n.SendFlush = all(node.Answer{Vote: node.Granted, Replied: true})
	over := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				n.Link.SetState(link.Down, errBroken)
				n.Link.SetState(link.Up, nil)
			}
		}
	})
	attempts := make([]*Attempt, 50000)
	for i := range attempts {
		attempts[i] = m.Acquire(claim("k", fmt.Sprint(i)), time.Minute, 1)
	}
	close(over)
	flipping.Wait()
	require.NoError(t, m.log.Close(t.Context()))
	for i, a := range attempts {
		a.claim.mu.Lock()
		require.Zero(t, a.claim.unanswered(), "attempt %d was handed to nobody", i)
		a.claim.mu.Unlock()
	}
}

// The goal: a lease that expires needs no release if every node has answered what was sent and none
// keeps the token for longer. A claim is certain only if no node failed it.
func TestClaim_NeedsCleanupAtExpiry(t *testing.T) {
	const longer, shorter, failing, failed = 20 * time.Second, 5 * time.Second, -1, -2
	type ttls []time.Duration // failing, failed: the connections to one node or two break
	for name, test := range map[string]struct {
		extensions       ttls
		unsettled, clean bool
	}{
		"not extended":            {clean: true},
		"extended":                {extensions: ttls{10 * time.Second, longer}, clean: true},
		"shortened":               {extensions: ttls{shorter}, unsettled: true},
		"a connection broke":      {extensions: ttls{failing}, unsettled: true},
		"it broke and came back":  {extensions: ttls{failing, longer}},
		"an extension failed":     {extensions: ttls{failed, 10 * time.Second}, unsettled: true},
		"it broke again":          {extensions: ttls{failing, longer, failing}, unsettled: true},
		"it broke, and was short": {extensions: ttls{failing, shorter}, unsettled: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, stores, stop := simulated(3, 1, 0)
			defer stop()
			c := claim("k", "token")
			require.NoError(t, wait(m.Acquire(c, 10*time.Second, 1), t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
			for _, ttl := range test.extensions {
				broken := stores[:max(0, -ttl)]
				for _, s := range broken {
					s.fail(1)
				}
				if ttl < 0 {
					ttl = 10 * time.Second
				}
				_ = extends(t, m, c, ttl)
				for _, s := range broken {
					s.fail(0)
				}
			}
			require.Equal(t, test.unsettled, c.NeedsCleanup(), name)
			require.Equal(t, test.clean, c.Certain(), name)
		})
	}
}

// notify sends on a channel of capacity 1, if that is empty.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

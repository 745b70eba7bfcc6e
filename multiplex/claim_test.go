package multiplex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/internal/watch"
	"github.com/stretchr/testify/require"
)

// store is a node's server in memory: it does what the scripts do, without expiry, and loses what
// the test wants.
type store struct {
	mu     sync.Mutex
	random *rand.Rand
	keys   map[string]string
	faults float64
}

var errBroken = errors.New("connection broke")

// trip answers each attempt, or breaks the connection before or after it was executed, or refuses
// to execute it.
func (s *store) trip(attempts []*Attempt, answers []answer) {
	s.mu.Lock()
	pause := time.Duration(s.random.IntN(3000)) * time.Microsecond
	s.mu.Unlock()
	time.Sleep(pause)
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := s.random.Float64() < s.faults
	for i, a := range attempts {
		switch {
		case a.kind != release && time.Since(a.sent) > a.timeout:
			answers[i] = answer{leftNothing: true, err: errQueuedTooLong}
		case broken:
			answers[i] = answer{broken: true, err: errBroken}
			if s.random.IntN(2) == 0 {
				s.execute(a)
			}
		case s.random.Float64() < s.faults:
			answers[i] = answer{leftNothing: true, replied: true, err: errors.New("READONLY")}
		default:
			answers[i] = s.execute(a)
		}
	}
}

func (s *store) fail(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = rate
}

// hold lets a key be another's.
func (s *store) hold(key, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = token
}

func (s *store) free(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

func (s *store) left() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.keys)
}

func (s *store) execute(a *Attempt) answer {
	token, keys := a.claim.Token(), a.claim.keys()
	foreign, missing := false, false
	for _, k := range keys {
		v, ok := s.keys[k]
		foreign = foreign || ok && v != token
		missing = missing || !ok
	}
	switch {
	case a.kind == release:
		for _, k := range keys {
			if s.keys[k] == token {
				delete(s.keys, k)
			}
		}
		return answer{vote: granted, replied: true}
	case foreign, a.kind == acquire && !missing:
		return answer{vote: refused, leftNothing: a.kind == acquire, replied: true}
	}
	for _, k := range keys {
		s.keys[k] = token
	}
	if a.kind == extend && missing {
		return answer{vote: refused, replied: true, keyIndex: -1}
	}
	return answer{vote: granted, replied: true}
}

func wait(a *Attempt, ctx context.Context) error { return a.Wait(ctx, time.Time{}) }

// simulated returns a Mux over n stores, and a function that ends its keepers.
func simulated(n int, seed uint64, faults float64) (*Mux, []*store, func()) {
	m := &Mux{cfg: Config{
		NodeTimeout: 20 * time.Millisecond, MaxTTL: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	}}
	peers := restartguard.NewPeers(make([]string, n), quorum(n))
	stores := make([]*store, n)
	ctx, stop := context.WithCancel(context.Background())
	for i := range n {
		s := &store{
			random: rand.New(rand.NewPCG(seed, uint64(i))), keys: map[string]string{},
			faults: faults,
		}
		nd := &node{
			addr: fmt.Sprint("node", i), mux: m, index: i, sendFlush: s.trip,
			guard: peers.Guard(restartguard.Config{Node: i}),
		}
		nd.disconnected, nd.pendingAdded = make(chan struct{}, 1), make(chan struct{}, 1)
		nd.connectDone = make(chan struct{})
		close(nd.connectDone)
		nd.responsiveness.epoch = time.Now()
		nd.state.Store(int32(NodeUp))
		nd.pipe, nd.watches, nd.queryWatches = nd.newPipe(), nd.newWatches(), s.queryWatches
		m.nodes, m.watches = append(m.nodes, nd), append(m.watches, nd.watches)
		stores[i] = s
		m.connectors.Go(func() { nd.serve(ctx) })
	}
	return m, stores, func() { stop(); m.connectors.Wait() }
}

// The goal: with attempts that break, get lost or come late in any order, two claims never hold a
// key at once. Every call ends within its timeout. When all is released nothing is left on any
// node.
func TestLane_KeepsTheOrderOfEachClaim(t *testing.T) {
	for seed := range uint64(40) {
		for _, n := range []int{1, 2, 3, 4, 5} {
			synctest.Test(t, func(t *testing.T) { simulate(t, n, seed) })
		}
	}
}

func simulate(t *testing.T, n int, seed uint64) {
	m, stores, stop := simulated(n, seed, []float64{0, 0.02, 0.2}[seed%3])
	var mu sync.Mutex
	holder := map[string]string{}
	change := func(c *Claim, from, to string) {
		mu.Lock()
		defer mu.Unlock()
		for _, k := range c.keys() {
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
				c.Init("", keys, fmt.Sprint(caller, "/", i))
				ctx, cancel := context.WithTimeout(context.Background(),
					time.Duration(random.IntN(30000))*time.Microsecond)
				start := time.Now()
				attempt := m.Acquire
				if judge := random.IntN(2*n) - n; judge >= 0 {
					attempt = func(c *Claim, ttl time.Duration,
						_ int,
					) *Attempt {
						return m.AcquireViaArbiter(c, ttl, judge)
					}
				}
				err := wait(attempt(c, time.Minute, 1), ctx)
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
					extension.Done()
					cancel()
					require.NotErrorIs(t, err, ErrHeld, "nobody took it away")
				}
				change(c, c.Token(), "")
				_ = wait(m.Release(c, 1), context.Background())
			}
		})
	}
	callers.Wait()
	for _, s := range stores {
		s.fail(0)
	}
	time.Sleep(time.Second) // the keepers' pauses pass in virtual time
	for i, s := range stores {
		require.Empty(t, s.left(), "seed %d: left on node %d of %d", seed, i, n)
		require.Zero(t, m.nodes[i].pipe.Waiting())
		require.Zero(t, m.Nodes()[i].PendingReleases)
	}
	stop()
}

// The goal: a claim that is released takes no further extension, whichever comes first to the lock.
func TestLane_NothingFollowsARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("p:", []string{"k"}, "token")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		first := m.Release(c, 1)
		require.ErrorIs(t, wait(m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1),
			t.Context()), ErrNoQuorum)
		require.Same(t, first, m.Release(c, 1))
		require.NoError(t, wait(first, t.Context()))
		require.NoError(t, wait(first, t.Context()))
		time.Sleep(time.Second)
		for _, s := range stores {
			require.Empty(t, s.left())
		}
		stop()
	})
}

// The goal: the three branches of a caller that leaves. Not sent yet: never sent.
func TestWait_LeavingBeforeSendingLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		blocker, c := new(Claim), new(Claim)
		blocker.Init("", []string{"a"}, "blocker")
		c.Init("", []string{"b"}, "token")
		m.Acquire(blocker, time.Minute, 1)
		synctest.Wait()
		a := m.Acquire(c, time.Minute, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, wait(a, ctx), context.Canceled)
		require.Equal(t, nodeSet(0), c.busyLanes|c.mayHold, "the lane is free, and nothing can be there")
		time.Sleep(time.Second)
		require.Equal(t, map[string]string{"a": "blocker"}, stores[0].left())
		stop()
	})
}

// Answered first: the answer is returned, although ctx has ended.
func TestWait_ReturnsAnAnswerThatCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("", []string{"k"}, "token")
		a := m.Acquire(c, time.Minute, 1)
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, wait(a, ctx))
		stop()
	})
}

// Sent and the caller gone: the late grant is released.
func TestWait_ALateGrantIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("", []string{"k"}, "token")
		a := m.Acquire(c, time.Minute, 1)
		synctest.Wait() // the flushes are under way
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := wait(a, ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(time.Second)
		for _, s := range stores {
			require.Empty(t, s.left())
		}
		stop()
	})
}

// The goal: what a node can't answer is bounded, and the oldest is dropped first.
func TestPendingReleases_AreBounded(t *testing.T) {
	n := &node{pendingAdded: make(chan struct{}, 1)}
	keys := make([]string, 1<<14)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	m := &Mux{nodes: []*node{n}}
	var last *Attempt
	for range 100 {
		c := new(Claim)
		c.Init("", keys, "t")
		last = m.newAttempt(c, release, 0, time.Second, time.Second)
		before := n.pending.dropped
		n.addPending(last)
		require.LessOrEqual(t, n.pending.keys, maxPendingReleases)
		if n.pending.dropped > before {
			require.LessOrEqual(t, n.pending.keys, maxPendingReleases*3/4,
				"many at once: the rest is copied")
		}
	}
	require.Same(t, last, n.pending.list[len(n.pending.list)-1].attempt)
	require.Equal(t, uint64(100), n.pending.dropped+uint64(len(n.pending.list)))
	require.Equal(t, Stats{
		DroppedReleases: n.pending.dropped, PendingReleases: len(n.pending.list),
	}, m.Stats())
}

// The goal: a node that may still execute a shorter TTL, from a connection that broke, does not
// count for an extension.
func TestExtend_ANodeThatMayStillShortenDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("", []string{"k"}, "token")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(time.Second)
		for _, s := range stores[:2] {
			s.fail(1)
		}
		require.ErrorIs(t, wait(m.Extend(c, time.Second, time.Now().Add(time.Minute), 0, 1),
			t.Context()), ErrNoQuorum)
		time.Sleep(time.Second)
		for _, s := range stores[:2] {
			s.fail(0)
		}
		require.ErrorIs(t, wait(m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1),
			t.Context()), ErrNoQuorum)
		stop()
	})
}

// The goal: a node that comes up between two reads of its state neither loses an attempt nor keeps
// its lane busy.
func TestLane_NoAttemptIsLostWhenANodeComesUp(t *testing.T) {
	m, _, stop := simulated(1, 1, 0)
	defer stop()
	n := m.nodes[0]
	n.sendFlush = func(_ []*Attempt, answers []answer) {
		for i := range answers {
			answers[i] = answer{vote: granted, replied: true}
		}
	}
	over := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				n.setState(NodeDown, errBroken)
				n.setState(NodeUp, nil)
			}
		}
	})
	attempts := make([]*Attempt, 50000)
	for i := range attempts {
		attempts[i] = m.Acquire(claim("k", fmt.Sprint(i)), time.Minute, 1)
	}
	close(over)
	flipping.Wait()
	require.NoError(t, n.pipe.Close(t.Context()))
	for i, a := range attempts {
		a.claim.mu.Lock()
		require.Zero(t, a.claim.busyLanes, "attempt %d was handed to nobody", i)
		a.claim.mu.Unlock()
	}
}

// The goal: a release that was confirmed in the background is reported at once when Wait is called
// again.
func TestPendingReleases_AConfirmedReleaseIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		stores[0].fail(1)
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		stores[0].fail(0)
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, release.Wait(t.Context(), time.Now()))
		require.Zero(t, time.Since(start))
		stop()
	})
}

// The goal: releases that are kept again and again do not delay the one that can be answered.
func TestPendingReleases_NewOnesDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		stores[0].fail(1)
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		stores[0].fail(0)
		start := time.Now()
		for len(stores[0].left()) > 0 {
			require.Less(t, time.Since(start), 3*resendDelay)
			notify(m.nodes[0].pendingAdded)
			time.Sleep(resendDelay / 4)
		}
		stop()
	})
}

// The goal: a release whose keys have expired is confirmed by that.
func TestPendingReleases_AreConfirmedByTheExpiryOfTheirKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
		m.nodes[0].sendFlush = func(_ []*Attempt, answers []answer) {
			for i := range answers {
				answers[i] = answer{replied: true, leftNothing: true, err: errBroken}
			}
		}
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		time.Sleep(2 * time.Second)
		require.NoError(t, release.Wait(t.Context(), time.Now()))
		require.Equal(t, uint64(1), m.Nodes()[0].DroppedReleases)
		require.Equal(t, uint64(1), m.Stats().DroppedReleases)
		require.Zero(t, m.Stats().PendingReleases)
		require.NotEmpty(t, stores[0].left(), "it was the clock that said so")
		stop()
	})
}

// The goal: a release is kept until the node answers it when a connection broke before the answer:
// a stopped server may read that connection later than any TTL, and take the key again.
func TestPendingReleases_AreKeptWhileABrokenConnectionMayStillBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		defer stop()
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		var instead atomic.Pointer[answer]
		trip := m.nodes[0].sendFlush
		m.nodes[0].sendFlush = func(attempts []*Attempt, answers []answer) {
			r := instead.Load()
			if r == nil {
				trip(attempts, answers)
				return
			}
			for i := range answers {
				answers[i] = *r
			}
		}
		instead.Store(&answer{broken: true, err: errBroken})
		require.ErrorIs(t, extends(t, m, c, time.Second), ErrNoQuorum)
		instead.Store(&answer{leftNothing: true, err: errNotConnected})
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		time.Sleep(time.Hour)
		synctest.Wait() // at this moment the connector sends it again
		m.nodes[0].dropExpired()
		require.Equal(t, 1, m.Nodes()[0].PendingReleases)
		require.Zero(t, m.Nodes()[0].DroppedReleases)
		stores[0].hold("k", "t") // the server continues, and reads the extension
		instead.Store(nil)
		time.Sleep(time.Second)
		require.Empty(t, stores[0].left())
		require.NoError(t, release.Wait(t.Context(), time.Now()))
	})
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

// The goal: a release is kept for the longest TTL of all that were sent, whichever came last.
func TestPendingReleases_AreKeptForTheLongestTTL(t *testing.T) {
	for _, ttls := range [][]time.Duration{{time.Second, time.Minute}, {time.Minute, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulated(1, 1, 0)
			defer stop()
			c := claim("k", "t")
			require.NoError(t, wait(m.Acquire(c, ttls[0], 1), t.Context()))
			require.NoError(t, extends(t, m, c, ttls[1]))
			m.nodes[0].sendFlush = func(_ []*Attempt, answers []answer) {
				for i := range answers {
					answers[i] = answer{leftNothing: true, err: errNotConnected}
				}
			}
			require.ErrorIs(t, wait(m.Release(c, 1), t.Context()), ErrNoQuorum)
			time.Sleep(59 * time.Second)
			synctest.Wait() // at this moment the connector sends it again
			m.nodes[0].dropExpired()
			require.Equal(t, 1, m.Nodes()[0].PendingReleases, "%v", ttls)
			time.Sleep(2 * time.Second)
			require.Zero(t, m.Nodes()[0].PendingReleases, "%v", ttls)
		})
	}
}

// The goal: that also holds if the broken extension was not shorter than what was sent before, but
// is shorter than what comes after.
func TestExtend_ANodeThatMayStillExtendLessDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		c := claim("k", "token")
		require.NoError(t, wait(m.Acquire(c, 2*time.Second, 1), t.Context()))
		time.Sleep(time.Second)
		for _, s := range stores[:2] {
			s.fail(1)
		}
		require.ErrorIs(t, wait(m.Extend(c, 2*time.Second, time.Now().Add(time.Minute), 0, 1),
			t.Context()), ErrNoQuorum)
		time.Sleep(time.Second)
		for _, s := range stores[:2] {
			s.fail(0)
		}
		require.ErrorIs(t, wait(m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1),
			t.Context()), ErrNoQuorum)
		time.Sleep(time.Second)
		require.NoError(t, wait(m.Extend(c, 2*time.Second, time.Now().Add(time.Minute), 0, 1),
			t.Context()), "the same TTL does no harm")
		time.Sleep(time.Second)
		stop()
	})
}

// extends starts an extension for ttl of a lease that has a minute left, and returns its outcome.
func extends(t *testing.T, m *Mux, c *Claim, ttl time.Duration) error {
	t.Helper()
	defer time.Sleep(time.Second) // all nodes answer
	return wait(m.Extend(c, ttl, time.Now().Add(time.Minute), 0, 1), t.Context())
}

// The goal: when several extensions may still take effect on the same nodes, the shortest limits
// what these nodes count for, whichever was sent last.
func TestExtend_TheShortestOfSeveralLateOnesLimits(t *testing.T) {
	const short, middle, long = time.Second, 3 * time.Second, 5 * time.Second
	for _, late := range [][]time.Duration{{short, long}, {long, short}, {long, short, long}} {
		synctest.Test(t, func(t *testing.T) {
			m, stores, stop := simulated(3, 1, 0)
			defer stop()
			c := claim("k", "token")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			time.Sleep(time.Second)
			require.Equal(t, middle, m.MaxConfirmableTTL(c, middle), "before any extension")
			for _, s := range stores[:2] {
				s.fail(1)
			}
			for _, ttl := range late {
				require.ErrorIs(t, extends(t, m, c, ttl), ErrNoQuorum)
			}
			for _, s := range stores[:2] {
				s.fail(0)
			}
			require.Equal(t, short, m.MaxConfirmableTTL(c, middle))
			require.Equal(t, short/2, m.MaxConfirmableTTL(c, short/2))
			require.ErrorIs(t, extends(t, m, c, middle), ErrNoQuorum, "late: %v", late)
			require.NoError(t, extends(t, m, c, short))
		})
	}
}

// The goal: a late extension limits nothing while the other nodes are a quorum.
func TestExtend_ALateOneOnAMinorityLimitsNothing(t *testing.T) {
	for n, minority := range map[int]int{3: 1, 4: 1, 5: 2} {
		synctest.Test(t, func(t *testing.T) {
			m, stores, stop := simulated(n, 1, 0)
			defer stop()
			c := claim("k", "token")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			time.Sleep(time.Second)
			fail := func(count int, rate float64) {
				for _, s := range stores[:count] {
					s.fail(rate)
				}
			}
			fail(minority, 1)
			require.NoError(t, extends(t, m, c, 10*time.Second))
			fail(minority, 0)
			require.Equal(t, 20*time.Second, m.MaxConfirmableTTL(c, 20*time.Second),
				"%d of %d", minority, n)
			require.NoError(t, extends(t, m, c, 20*time.Second))
			fail(minority+1, 1)
			require.ErrorIs(t, extends(t, m, c, 30*time.Second), ErrNoQuorum)
			fail(minority+1, 0)
			require.Equal(t, 10*time.Second, m.MaxConfirmableTTL(c, 20*time.Second),
				"%d of %d", minority+1, n)
		})
	}
}

// The goal: nodes that lost the keys at the same time cost the lease, also if none of the
// extensions that found them got all of their answers. An answer that comes too late for its own
// extension counts for the later ones.
func TestExtend_ReportsALossThatNoSingleOneSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		gate := make(chan struct{})
		c := claim("k", "token")
		require.NoError(t, wait(m.Acquire(c, 10*time.Second, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		delete(stores[0].keys, "k")
		delete(stores[2].keys, "k")
		trip := m.nodes[2].sendFlush
		m.nodes[2].sendFlush = func(attempts []*Attempt, answers []answer) {
			<-gate
			trip(attempts, answers)
		}
		extension := func() error {
			return wait(m.Extend(c, 10*time.Second, time.Now().Add(9*time.Second), 0, 1),
				t.Context())
		}
		require.ErrorIs(t, extension(), ErrNoQuorum)
		require.NoError(t, extension(), "a quorum has it, and nobody else is known to have had one")
		close(gate)
		time.Sleep(time.Second)
		require.ErrorIs(t, extension(), ErrHeld)
		_ = wait(m.Release(c, 1), t.Context())
		time.Sleep(time.Minute)
	})
}

// queryWatches replies to watches: a key that is held ends in a minute.
func (s *store) queryWatches(keys []string, replies []watch.Reply) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		replies[i] = watch.Reply{Known: true, Notifies: true, Until: time.Now()}
		if _, held := s.keys[key]; held {
			replies[i].Until = time.Now().Add(time.Minute)
		}
	}
}

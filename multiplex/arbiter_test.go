package multiplex

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// asked counts, for each node, the acquires that reached it.
func asked(m *Mux) []int {
	counts := make([]int, len(m.nodes))
	var mu sync.Mutex
	for i, n := range m.nodes {
		trip := n.SendFlush
		n.SendFlush = func(f *node.Flush) {
			mu.Lock()
			for k, o := range f.Ops {
				if o.Op().Kind == node.Acquire && !f.Answers[k].NotAsked {
					counts[i]++
				}
			}
			mu.Unlock()
			trip(f)
		}
	}
	return counts
}

// hang lets a node answer nothing until the returned function is called.
func hang(n *node.Node) (resume func()) {
	synctest.Wait()
	gate, trip := make(chan struct{}), n.SendFlush
	n.SendFlush = func(f *node.Flush) { <-gate; trip(f) }
	return func() { close(gate) }
}

// nothingLeft waits until everything is released, and requires that no node has a key.
func nothingLeft(t *testing.T, m *Mux, stores []*memoryNode) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	for i, s := range stores {
		require.Empty(t, s.left(), "node %d", i)
		require.Zero(t, m.Nodes()[i].PendingReleases)
	}
}

// The goal: if the arbiter refuses, no other node is asked, and nothing is sent to release the
// attempt.
func TestArbiter_AloneRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		stores[1].hold("k", "another")
		counts := asked(m)
		c := claim("k", "t")
		o := m.AcquireViaArbiter(c, time.Minute, 1).Wait(t.Context(), time.Time{})
		require.Equal(t, Outcome{Result: Held, Keys: []string{"k"}, Nodes: []string{"node1"}}, o)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 0}, counts)
		require.Equal(t, Stats{Flushes: 1, Operations: 1, Attempts: 1}, m.Stats())
		require.Zero(t, unsettled(c))
	})
}

// The goal: if the arbiter grants, all nodes are asked. Validity counts from before the arbiter
// was.
func TestArbiter_GrantsAndAllAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{1, 2, 3, 4, 5} {
			m, stores, stop := simulated(n, 1, 0)
			counts := asked(m)
			begin := time.Now()
			c := claim("k", "t")
			a := m.AcquireViaArbiter(c, time.Minute, n-1)
			require.NoError(t, wait(a, t.Context()))
			require.Less(t, time.Since(begin), m.cfg.NodeTimeout/2, "the others were asked at once")
			require.Equal(t, begin, a.Sent())
			time.Sleep(time.Second)
			synctest.Wait()
			for i := range n {
				require.Equal(t, 1, counts[i])
				require.Equal(t, map[string]string{"k": "t"}, stores[i].left())
			}
			require.NoError(t, wait(m.Release(c, 1), t.Context()))
			nothingLeft(t, m, stores)
			stop()
		}
	})
}

// The goal: without a vote of the arbiter, for whatever reason, the others decide within the time
// for both. Nothing is left if they refuse.
func TestArbiter_WithoutItsVoteTheOthersDecide(t *testing.T) {
	none := func() {}
	for name, fail := range map[string]func(m *Mux, s *memoryNode) (mend func()){
		"down": func(m *Mux, _ *memoryNode) func() {
			m.nodes[1].Link.SetState(NodeDown,
				errBroken)
			return none
		},
		"silent": func(m *Mux, _ *memoryNode) func() { return hang(m.nodes[1]) },
		"error": func(m *Mux, s *memoryNode) func() {
			m.nodes[1].SendFlush = all(node.Answer{
				Replied: true, LeftNothing: true, Err: errors.New("READONLY"),
			})
			return func() { m.nodes[1].SendFlush = answeredBy(s.flush) }
		},
		"broken": func(_ *Mux, s *memoryNode) func() { s.fail(1); return func() { s.fail(0) } },
	} {
		for _, refuse := range []bool{false, true} {
			t.Run(fmt.Sprint(name, refuse), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, stores, stop := simulated(3, 1, 0)
					defer stop()
					mend := fail(m, stores[1])
					c, begin := claim("k", "t"), time.Now()
					if refuse {
						stores[0].hold("k", "another")
						stores[2].hold("k", "another")
					}
					err := wait(m.AcquireViaArbiter(c, time.Minute, 1), t.Context())
					require.LessOrEqual(t, time.Since(begin), m.cfg.NodeTimeout*3/2)
					if refuse {
						require.ErrorIs(t, err, ErrHeld)
						stores[0].free("k")
						stores[2].free("k")
					} else {
						require.NoError(t, err)
						m.Release(c, 1)
					}
					mend()
					if name == "down" {
						m.nodes[1].Link.SetState(NodeUp, nil)
						m.nodes[1].Resend()
					}
					nothingLeft(t, m, stores)
				})
			})
		}
	}
}

// The goal: a caller that leaves while the arbiter or the others are asked leaves nothing behind.
// The error says which nodes were asked.
func TestArbiter_LeavingInEitherPhaseLeavesNothing(t *testing.T) {
	for phase, silent := range [][]int{{1}, {0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			m, stores, stop := simulated(3, 1, 0)
			defer stop()
			counts := asked(m)
			var resume []func()
			for _, i := range silent {
				resume = append(resume, hang(m.nodes[i]))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			err := wait(m.AcquireViaArbiter(claim("k", "t"), time.Minute, 1), ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, ErrNoQuorum)
			var o *outcomeError
			require.ErrorAs(t, err, &o)
			require.Equal(t, 3, o.Granted+o.Refused+o.Unknown)
			require.Len(t, o.NoVotes, o.Unknown)
			for _, n := range o.NoVotes {
				want := errCallerGone
				if phase == 0 && n.Node != "node1" {
					want = errNotAsked
				}
				require.ErrorIs(t, n.Err, want, n.Node)
			}
			for _, f := range resume {
				f()
			}
			nothingLeft(t, m, stores)
			if phase == 0 {
				require.Equal(t, []int{0, 1, 0}, counts, "the late vote of the arbiter asks nobody")
			}
		})
	}
}

// The goal: if the arbiter was not even sent the attempt when the others are asked, because all are
// busy, each node is asked once. A node that is asked twice would refuse its own token.
func TestArbiter_EachNodeIsAskedOnceByARoundThatIsStillOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		counts := asked(m)
		var resume []func()
		for _, n := range m.nodes {
			resume = append(resume, hang(n))
		}
		busy, c := claim("busy", "t"), claim("k", "t")
		m.Acquire(busy, time.Minute, 1)
		synctest.Wait()
		a := m.AcquireViaArbiter(c, time.Minute, 1)
		time.AfterFunc(m.cfg.NodeTimeout*5/8, func() {
			for _, f := range resume {
				f()
			}
		})
		require.NoError(t, wait(a, t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int{2, 2, 2}, counts)
		require.Equal(t, m.all(), unsettled(c))
		m.Release(busy, 1)
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		nothingLeft(t, m, stores)
	})
}

// The goal: a release by another goroutine, while the arbiter is asked, ends the attempt.
func TestArbiter_AReleaseBeforeItsVoteEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		counts := asked(m)
		resume := hang(m.nodes[1])
		c := claim("k", "t")
		a := m.AcquireViaArbiter(c, time.Minute, 1)
		synctest.Wait()
		m.Release(c, 1)
		resume()
		require.ErrorIs(t, wait(a, t.Context()), ErrNoQuorum)
		nothingLeft(t, m, stores)
		require.Equal(t, []int{0, 1, 0}, counts)
	})
}

// The goal: when all contenders have the same arbiter, one of them wins each round, and no votes
// are split.
func TestArbiter_OneOfManyContendersWins(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			const contenders, rounds = 16, 20
			m, stores, stop := simulated(5, seed, 0)
			m.cfg.NodeTimeout = time.Second
			defer stop()
			for round := range rounds {
				var all sync.WaitGroup
				won := make(chan *Claim, contenders)
				for i := range contenders {
					all.Go(func() {
						c := claim("k", fmt.Sprint(round, "/", i))
						if wait(m.AcquireViaArbiter(c, time.Minute, round%5), t.Context()) == nil {
							won <- c
						}
					})
				}
				all.Wait()
				require.Len(t, won, 1, "seed %d, round %d", seed, round)
				require.NoError(t, wait(m.Release(<-won, 1), t.Context()))
				time.Sleep(10 * time.Millisecond)
			}
			require.Zero(t, m.Stats().SplitVotes)
			require.Equal(t, uint64(contenders*rounds), m.Stats().Attempts)
			nothingLeft(t, m, stores)
		})
	}
}

// The goal: a split vote is counted once. An attempt that loses to a single other one, or to nodes
// that fail, is not a split vote.
func TestStats_CountSplitVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(5, 1, 0)
		defer stop()
		lose := func(held ...int) {
			for i, s := range stores {
				s.free("k")
				if slices.Contains(held, i) {
					s.hold("k", "another")
				}
			}
			require.Error(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		lose(0, 1, 2, 3, 4)
		require.Zero(t, m.Stats().SplitVotes)
		for _, n := range m.nodes[:3] {
			n.SendFlush = all(node.Answer{LeftNothing: true, Replied: true, Err: errBroken})
		}
		lose(4)
		require.Zero(t, m.Stats().SplitVotes, "one granted, one refused, of three that are needed")
		for i, s := range stores[:3] {
			m.nodes[i].SendFlush = answeredBy(s.flush)
		}
		lose(0, 1, 2)
		require.Equal(t, uint64(1), m.Stats().SplitVotes)
	})
}

// The goal: all contenders for a key choose the same arbiter, whatever the order of the nodes. Keys
// are spread over the nodes. A node that is of no use is left out, and so is one that is not
// connected.
func TestArbiter_AllContendersChooseTheSame(t *testing.T) {
	t.Parallel()
	m, _, stop := simulated(5, 1, 0)
	defer stop()
	turned := &Mux{
		nodes:   []*node.Node{m.nodes[4], m.nodes[3], m.nodes[2], m.nodes[1], m.nodes[0]},
		systems: m.systems,
	}
	chosen := map[int]int{}
	for i := range 3000 {
		key := fmt.Sprint("sku:", i)
		arbiter := m.Arbiter(0, 0, key, 0)
		require.Equal(t, arbiter, 4-turned.Arbiter(0, 0, key, 0))
		chosen[arbiter]++
		next := m.Arbiter(0, 0, key, 1)
		require.NotEqual(t, arbiter, next)
		require.Equal(t, arbiter, m.Arbiter(0, 0, key, 5))
		m.nodes[arbiter].Link.SetState(NodeDown, errBroken)
		require.Equal(t, next, m.Arbiter(0, 0, key, 0))
		m.nodes[arbiter].Link.SetState(NodeUp, nil)
	}
	require.Len(t, chosen, 5)
	for arbiter, times := range chosen {
		require.InDelta(t, 600, times, 120, "node %d", arbiter)
	}
	for _, n := range m.nodes {
		n.Link.SetState(NodeDown, errBroken)
	}
	require.Equal(t, -1, m.Arbiter(0, 0, "k", 0))
	for _, n := range m.nodes {
		n.Link.SetState(NodeUp, nil)
	}
}

// The goal: Close while arbiters are asked leaves no goroutine and no caller.
func TestArbiter_CloseEndsContenders(t *testing.T) {
	m, _, stop := simulated(3, 1, 0)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			_ = wait(m.AcquireViaArbiter(claim("k", fmt.Sprint(i)), time.Minute, 1),
				context.Background())
		})
	}
	require.NoError(t, m.log.Close(t.Context()))
	all.Wait()
	for begin := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(begin), patient, "goroutines are left")
	}
	stop()
}

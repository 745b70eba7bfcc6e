package multiplex

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// The goal: a release that a node missed is kept while an acquire of its claim is under way there,
// however long after the TTL: a stopped server may still execute that acquire.
func TestRounds_AReleaseIsKeptBehindAnAcquireUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulatedConnectors(3, 1, 0)
		stop() // the test does the connectors' work
		defer endLogs(m)
		n, gate := m.nodes[2], make(chan struct{})
		n.SendFlush = answeredBy(func(_ []*Attempt, answers []node.Answer) {
			<-gate
			for i := range answers {
				answers[i] = node.Answer{Broken: true, Err: errBroken}
			}
		})
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
		released := m.Release(c, 1)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, m.Nodes()[2].PendingReleases, "the node hangs")
		m.log.SetReader(2, batch.Out)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n.NotConnected()
		require.Equal(t, 1, m.Nodes()[2].PendingReleases, "the acquire is under way")
		close(gate)
		time.Sleep(time.Hour)
		synctest.Wait()
		n.NotConnected()
		require.Equal(t, 1, m.Nodes()[2].PendingReleases, "the acquire may still be executed")
		require.Zero(t, m.Nodes()[2].DroppedReleases)
		n.SendFlush = answeredBy(stores[2].flush)
		m.log.SetReader(2, batch.Reading)
		stores[2].hold("k", "t") // the server continues, and reads the acquire
		n.Resend()
		require.Empty(t, stores[2].left())
		require.Zero(t, m.Nodes()[2].PendingReleases)
		require.NoError(t, wait(released, t.Context()))
	})
}

// stopped lets node i hold back what it is sent until the returned function is called.
func stopped(m *Mux, i int) (goOn func()) {
	synctest.Wait()
	gate, trip := make(chan struct{}), m.nodes[i].SendFlush
	m.nodes[i].SendFlush = func(f *node.Flush) {
		<-gate
		trip(f)
	}
	return func() { close(gate) }
}

// The goal: a lease needs cleanup while an extension is under way on a node that missed the newer
// one, though nothing but the claim refers to either of them any more.
func TestRounds_AnExtensionUnderWayNeedsCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(5, 1, 0)
		defer stop()
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.False(t, c.NeedsCleanup())
		goOn := stopped(m, 4)
		for range 2 {
			e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
			require.NoError(t, wait(e, t.Context()))
			time.Sleep(10 * m.cfg.NodeTimeout) // the node misses the second one
			synctest.Wait()
			require.True(t, c.NeedsCleanup())
		}
		c.mu.Lock()
		require.Nil(t, c.latest, "every node is done with the second one")
		require.Equal(t, quorum.Node(4), c.unanswered())
		c.mu.Unlock()
		goOn()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.False(t, c.NeedsCleanup())
	})
}

// The goal: a node whose vote is unknown, and which may have done it, may hold the keys. That is so
// if fence keys were not raised for an extension, and if a part of an acquire was not sent again.
func TestRounds_WhatIsInDoubtMayBeHeld(t *testing.T) {
	for _, k := range []node.Kind{node.Acquire, node.Extend} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulated(3, 1, 0)
			defer stop()
			c := claim("k", "t")
			a := m.newAttempt(c, k, time.Minute, time.Second, time.Second)
			c.mu.Lock()
			c.begin(a)
			a.added, c.may = m.all(), m.all()
			c.mu.Unlock()
			m.record(a, 0, node.Answer{Err: link.ErrNotConnected})
			require.True(t, unsettled(c).Has(0))
			require.Equal(t, quorum.Node(0), a.unknown)
			m.record(a, 1, node.Answer{LeftNothing: true, Err: link.ErrNotConnected})
			require.False(t, unsettled(c).Has(1))
		})
	}
}

// The goal: a trip that was taken before its node missed a round looks at each attempt: the release
// of one of them may have been sent meanwhile, and nothing of the claim may follow it.
func TestRounds_ATripLooksAtEachAttemptAfterAMiss(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		n, gate := m.nodes[0], make(chan struct{})
		var sets, releases atomic.Int32
		actors[0].hear(func(command string) {
			switch command {
			case "SET":
				sets.Add(1)
			case "EVALSHA":
				releases.Add(1)
			}
		})
		trip := n.SendFlush
		n.SendFlush = func(f *node.Flush) {
			if f.Reading != nil {
				<-gate // as if the process were stopped here
			}
			trip(f)
		}
		c := claim("k", "t")
		m.Acquire(c, time.Minute, 1)
		synctest.Wait()
		released := m.Release(c, 1)
		n.Link.SetState(link.Down, errBroken)
		synctest.Wait()
		require.Equal(t, 1, m.Nodes()[0].PendingReleases, "it has missed the release")
		n.Link.SetState(link.Up, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, m.Nodes()[0].PendingReleases)
		require.EqualValues(t, 1, releases.Load(), "the connector has sent it")
		close(gate)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, sets.Load())
		require.Equal(t, Won, released.Wait(t.Context()).Result)
		require.Zero(t, unanswered(c))
	})
}

// The goal: the vote of a node that is down is unknown for that reason. The other nodes are sent
// the release in the bytes that are made once, and the node owes nothing.
func TestRounds_ANodeThatIsDownHasNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		m.nodes[2].Link.SetState(link.Down, errBroken)
		c := claim("k", "t")
		a := m.Acquire(c, time.Minute, 1)
		require.NoError(t, wait(a, t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, quorum.Nodes(0b011), unsettled(c))
		c.mu.Lock()
		require.Equal(t, []quorum.Nodes{0b011, 0, 0b100},
			[]quorum.Nodes{a.granted, a.refused, a.unknown})
		require.ErrorIs(t, a.detail(2).err, errBroken)
		c.mu.Unlock()
		r := m.Release(c, 1)
		require.False(t, r.op.Directed, "all nodes that are up are sent the same")
		require.NoError(t, wait(r, t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Zero(t, m.Nodes()[2].PendingReleases, "it was never asked")

		m.nodes[1].Link.SetState(link.Down, link.ErrNotConnected)
		o := m.Acquire(claim("l", "t"), time.Minute, 1).Wait(t.Context())
		require.Equal(t, NoQuorum, o.Result)
		for _, no := range o.NoVotes {
			want := map[string]error{"node1": link.ErrNotConnected, "node2": errBroken}[no.Name]
			if want != nil {
				require.Equal(t, holders.Node{Name: no.Name, State: link.Down, Err: want}, no)
			}
		}
		require.GreaterOrEqual(t, len(o.NoVotes), 2)
		nothingLeft(t, m, stores)
	})
}

// The goal: of an even number of nodes the half decides at once if it refuses, and one more if they
// are down. Nobody waits for the others, which hang.
func TestRounds_HalfOfTheNodesDecideAtOnce(t *testing.T) {
	for _, n := range []int{2, 4, 6} {
		for _, down := range []bool{false, true} {
			of := n / 2
			if down {
				of++
			}
			synctest.Test(t, func(t *testing.T) {
				m, stores, stop := simulated(n, 1, 0)
				defer stop()
				var goOn []func()
				for i := range n {
					switch {
					case i >= of:
						goOn = append(goOn, hang(m.nodes[i]))
					case down:
						m.nodes[i].Link.SetState(link.Down, errBroken)
					default:
						stores[i].hold("k", "another")
					}
				}
				start := time.Now()
				o := m.Acquire(claim("k", "t"), time.Minute, 1).Wait(t.Context())
				require.Less(t, time.Since(start), slowAfter)
				require.Equal(t, map[bool]Result{false: Held, true: NoQuorum}[down], o.Result)
				for _, f := range goOn {
					f()
				}
				for _, s := range stores[:of] {
					s.free("k")
				}
				nothingLeft(t, m, stores)
			})
		}
	}
}

// The goal: what a round still has of its attempts when their callers are done is for the race
// detector: callers that sleep, and others that do not, with answers at the same time.
func TestRounds_SleepersAndTheLastAnswers(t *testing.T) {
	t.Parallel()
	m, stores, stop := simulated(3, 1, 0)
	defer stop()
	for i, n := range m.nodes {
		n.SendFlush = all(node.Answer{Vote: node.Granted, Replied: true})
		_ = stores[i]
	}
	var callers [8]chan struct{}
	for g := range callers {
		callers[g] = make(chan struct{})
		go func() {
			defer close(callers[g])
			c := claim(fmt.Sprint("k", g), "t")
			_ = wait(m.Acquire(c, time.Minute, 1), t.Context())
			for i := range 2000 {
				// The caller of an extension with a short TTL sleeps.
				ttl := []time.Duration{time.Minute, m.cfg.NodeTimeout}[(i+g)%2]
				e := m.Extend(c, ttl, time.Now().Add(time.Minute), 0, 1)
				_ = wait(e, t.Context())
			}
			_ = wait(m.Release(c, 1), t.Context())
		}()
	}
	for _, over := range callers {
		<-over
	}
	require.NoError(t, m.log.Close(t.Context()))
}

// The goal: while a quorum of nodes hangs, the others are sent what comes, long before the hung
// ones lose their connections, and before anybody has waited for NodeTimeout.
func TestRounds_AHungQuorumDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(5, 1, 0)
		defer stop()
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		var goOn []func()
		for _, n := range m.nodes[2:] {
			goOn = append(goOn, hang(n))
		}
		first := claim("first", "t")
		m.Acquire(first, time.Minute, 1) // from now on they hang
		synctest.Wait()
		for round := range 3 {
			c := claim(fmt.Sprint("k", round), "t")
			m.Acquire(c, time.Minute, 1)
			time.Sleep(slowAfter + 8*time.Millisecond) // two trips take up to 6 ms
			synctest.Wait()
			for _, s := range stores[:2] {
				require.Equal(t, "t", s.left()[c.Key(0)], "round %d", round)
			}
			m.Release(c, 1)
			time.Sleep(slowAfter + 8*time.Millisecond)
			synctest.Wait()
			for _, s := range stores[:2] {
				require.NotContains(t, s.left(), c.Key(0), "round %d", round)
			}
		}
		m.Release(c, 1)
		m.Release(first, 1)
		for _, f := range goOn {
			f()
		}
		nothingLeft(t, m, stores)
	})
}

// The goal: a round whose attempts were all cancelled is as young as the next one that it takes: a
// node that is being connected gets its time.
func TestRounds_AnEmptyRoundDoesNotAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		resume := hang(m.nodes[0])
		m.Acquire(claim("first", "t"), time.Minute, 1)
		synctest.Wait()
		for _, n := range m.nodes {
			n.Link.SetState(link.Connecting, errBroken)
		}
		gone := claim("gone", "t")
		m.Acquire(gone, time.Minute, 1)
		m.Release(gone, 1) // both vanish
		resume()
		time.Sleep(time.Minute - 5*time.Millisecond)
		synctest.Wait()
		m.nodes[0].Link.SetState(link.Up, nil)
		a := m.Acquire(claim("k", "t"), time.Minute, 1)
		time.Sleep(m.cfg.NodeTimeout / 2)
		synctest.Wait()
		for _, n := range m.nodes[1:] {
			n.Link.SetState(link.Up, nil)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, wait(a, t.Context()))
		require.Equal(t, "t", stores[2].left()["k"])
		m.Release(a.claim, 1)
		time.Sleep(time.Second)
		synctest.Wait()
	})
}

// The goal: a caller that waits for an extension returns when another goroutine releases, also if
// the extension was alone in a round that nobody is sent any more.
func TestRounds_AWaitEndsWithARoundThatIsEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		for i := range m.nodes {
			m.log.SetReader(i, batch.Paused)
		}
		began := time.Now()
		extended := make(chan error, 1)
		go func() {
			e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
			extended <- wait(e, context.Background())
		}()
		synctest.Wait()
		released := m.Release(c, 1)
		select {
		case err := <-extended:
			require.ErrorContains(t, err, node.ErrSuperseded.Error())
			require.Zero(t, time.Since(began))
		case <-time.After(time.Hour):
			t.Error("nobody wakes the caller")
		}
		for i := range m.nodes {
			m.log.SetReader(i, batch.Reading)
		}
		require.NoError(t, wait(released, t.Context()))
		nothingLeft(t, m, stores)
	})
}

// The goal: rounds that a node may not read, because no quorum was connected yet, do not stay for
// it, and nobody waits for them.
func TestRounds_NoneWaitsForTheFirstQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulatedConnectors(2, 1, 0)
		defer stop()
		m.begun.Store(false)
		m.nodes[1].Link.SetState(link.Quarantined, errBroken)
		m.nodes[0].Link.SetState(link.Connecting, nil)
		m.nodes[0].Link.SetState(link.Up, nil)
		for i := range 4 {
			c := claim(fmt.Sprint("k", i), "t")
			ctx, cancel := context.WithTimeout(t.Context(), m.cfg.NodeTimeout*time.Duration(i)/2)
			require.ErrorIs(t, wait(m.Acquire(c, time.Minute, 1), ctx), ErrNoQuorum)
			cancel()
		}
		time.Sleep(2 * m.cfg.NodeTimeout)
		require.Zero(t, m.log.Waiting(0))
		endLogs(m)
		require.Empty(t, stores[0].left())
	})
}

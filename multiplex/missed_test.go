package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// setReaders has all nodes read, or not.
func setReaders(m *Mux, s batch.ReaderState) {
	for i := range m.nodes {
		m.log.SetReader(i, s)
	}
}

// The goal: a slow node that has missed a release is not sent the acquire of the same claim any
// more, which it has not read: the connector may send the release first.
func TestMissed_NothingFollowsAReleaseThatOvertakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulatedConnectors(3, 1, 0)
		stop() // the test does the connectors' work
		defer endLogs(m)
		m.cfg.NodeTimeout = 10 * time.Second
		stores[0].hold("k", "another")
		n := m.nodes[2]
		send := n.SendFlush
		resume := hang(n)
		first := m.Acquire(claim("first", "t"), time.Minute, 1)
		require.NoError(t, wait(first, t.Context()))
		synctest.Wait()
		setReaders(m, batch.Paused) // so that the two are in one round
		open, c := m.Acquire(claim("k", "t"), time.Minute, 1), claim("c", "t")
		held := m.Acquire(c, time.Minute, 1)
		setReaders(m, batch.Reading)
		require.NoError(t, wait(held, t.Context()))
		require.Same(t, open.round, held.round)
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		time.Sleep(3 * forgetAfter)
		synctest.Wait()
		require.Equal(t, 1, m.Nodes()[2].PendingReleases)
		require.NotZero(t, m.log.Waiting(2), "its vote on k may decide")
		n.SendFlush = send
		n.Resend()
		require.Zero(t, m.Nodes()[2].PendingReleases)
		resume()
		require.NoError(t, wait(open, t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		require.NotContains(t, stores[2].left(), "c")
		require.Contains(t, stores[2].left(), "k")
	})
}

// The goal: a node that is being connected votes on what is not decided, also if no caller waits at
// the moment: it may wait for another part of its claim.
func TestMissed_WhatIsUndecidedWaitsForANodeThatConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		m.cfg.NodeTimeout = 10 * time.Second
		stores[0].hold("k", "another")
		m.nodes[2].Link.SetState(link.Connecting, errBroken)
		a := m.Acquire(claim("k", "t"), time.Minute, 1)
		time.Sleep(time.Second)
		m.nodes[2].Link.SetState(link.Up, nil)
		require.NoError(t, wait(a, t.Context()))
		stores[0].free("k")
		m.Release(a.claim, 1)
		nothingLeft(t, m, stores)
	})
}

// The goal: a release that was never sent has deleted nothing. So a node that has no key then, says
// that the lease had lost it.
func TestMissed_AReleaseThatWasNotSentHasDeletedNothing(t *testing.T) {
	for _, sent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulatedConnectors(3, 1, 0)
			stop()
			defer endLogs(m)
			c := claim("k", "t")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
			setReaders(m, batch.Paused)
			release := m.Release(c, 1)
			m.record(release, 0, node.Answer{LeftNothing: !sent, Broken: sent, Err: errBroken})
			m.record(release, 0, node.Answer{Vote: node.Refused, Replied: true, KeyIndex: -1})
			require.Equal(t, !sent, release.refused.Has(0))
			require.Equal(t, sent, release.granted.Has(0))
			setReaders(m, batch.Reading)
			time.Sleep(time.Second) // every node has answered
		})
	}
}

// The goal: a node that was never asked for kept keys may keep them. So the release of who adopted
// them is owed to that node too.
func TestMissed_AReleaseOfAdoptedKeysIsOwedToAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulatedConnectors(3, 1, 0)
		stop()
		defer endLogs(m)
		m.nodes[2].Link.SetState(link.Down, errBroken)
		c := claim("k", "t")
		c.Adopt("kept", script.Free)
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		c.Adopted()
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, m.Nodes()[2].PendingReleases)
	})
}

// The goal: a release that a stopped node has missed is kept until the node answers it, while an
// acquire of the same claim has no answer there: the node may execute that later.
func TestMissed_AReleaseOutlastsAnAcquireThatIsExecutedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulatedConnectors(3, 1, 0)
		stop() // the test does the connectors' work
		defer endLogs(m)
		n := m.nodes[2]
		gate := make(chan struct{})
		n.SendFlush = answeredBy(func(attempts []*Attempt, answers []node.Answer) {
			<-gate
			stores[2].mu.Lock()
			defer stores[2].mu.Unlock()
			for i, a := range attempts {
				answers[i] = stores[2].execute(a)
			}
		})
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
		released := m.Release(c, 1)
		require.NoError(t, wait(released, t.Context()))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, m.Nodes()[2].PendingReleases)
		close(gate) // the server executes the acquire now
		synctest.Wait()
		require.Contains(t, stores[2].left(), "k")
		n.NotConnected()
		require.Zero(t, m.Nodes()[2].DroppedReleases)
		n.Resend()
		require.Empty(t, stores[2].left())
	})
}

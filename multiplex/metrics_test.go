package multiplex

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// failures are the reasons that were counted for node i.
func failures(m *Mux, i int) map[string]uint64 {
	all := make(map[string]uint64)
	counts := m.Nodes()[i].Counts
	for f := range counts.Failures {
		if n := counts.Failures[f].Load(); n > 0 {
			all[[...]string{
				"Timeout", "Connection", "Down", "Quarantined", "Server", "Protocol", "DataLoss",
				"QueuedTooLong", "Overloaded",
			}[f]] = n
		}
	}
	return all
}

// answering is a trip that gives every acquire the same answer, and every release what was asked
// for.
func answering(r node.Answer) func(*node.Flush) {
	return answeredBy(func(attempts []*Attempt, answers []node.Answer) {
		for i, a := range attempts {
			if answers[i] = r; a.op.Kind == node.Release {
				answers[i] = node.Answer{Vote: node.Granted, Replied: true}
			}
		}
	})
}

// The goal: each operation without a vote is counted once, by what kept the node from voting, and
// for that node alone.
func TestMetrics_CountFailuresByTheirReason(t *testing.T) {
	says := func(r node.Answer) func(*node.Node) func() {
		return func(n *node.Node) func() {
			n.SendFlush = answering(r)
			return func() {}
		}
	}
	is := func(s link.State, why error) func(*node.Node) func() {
		return func(n *node.Node) func() {
			n.Link.SetState(s, why)
			return func() {}
		}
	}
	for reason, fail := range map[string]func(*node.Node) (resume func()){
		"Connection": says(node.Answer{Broken: true, Err: errBroken}),
		"Server": says(node.Answer{
			Replied: true, LeftNothing: true, Err: errors.New("OOM"),
		}),
		"Protocol":      says(node.Answer{Replied: true, Err: resp.ProtocolError("no such reply")}),
		"DataLoss":      says(node.Answer{Broken: true, Err: link.ErrDataLoss}),
		"QueuedTooLong": says(node.Answer{LeftNothing: true, Err: node.ErrQueuedTooLong}),
		"Down":          is(link.Down, errBroken),
		"Quarantined":   is(link.Quarantined, &guard.Quarantine{Reason: "test"}),
		"Timeout":       hang,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulated(3, 1, 0)
			resume := fail(m.nodes[1])
			// So that nobody can do without node 1.
			m.nodes[2].SendFlush = answering(node.Answer{
				Vote: node.Refused, Replied: true, LeftNothing: true,
				KeyIndex: -1,
			})
			require.ErrorIs(t, wait(m.Acquire(claim("a", "t"), time.Minute, 1), t.Context()),
				ErrNoQuorum, reason)
			require.Equal(t, map[string]uint64{reason: 1}, failures(m, 1), reason)
			require.Empty(t, failures(m, 0), reason)
			require.Empty(t, failures(m, 2), reason)
			resume()
			time.Sleep(time.Second) // for the releases
			synctest.Wait()
			stop()
		})
	}
}

// The goal: an acquire that the log does not take any more counts once for each node. It was sent
// to none, so it needs no release.
func TestMetrics_CountAnOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for _, n := range m.nodes { // so that all rounds stay open
			n.Link.SetState(link.Connecting, errBroken)
		}
		for i := range maxPending {
			m.Acquire(claim(fmt.Sprint(i), "t"), time.Minute, 1)
		}
		c := claim("a", "t")
		require.ErrorIs(t, wait(m.Acquire(c, time.Minute, 1), t.Context()), batch.ErrOverloaded)
		for i := range m.nodes {
			require.Equal(t, map[string]uint64{"Overloaded": 1}, failures(m, i))
			require.Equal(t, maxPending, m.log.Waiting(i), "a release of nothing")
		}
		require.Zero(t, unsettled(c))
	})
}

// The goal: each flush is timed once, from sending to the answer, and counted with what it carried.
// Changes of the connection are counted.
func TestMetrics_TimeFlushesAndCountConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		n := m.nodes[0]
		n.SendFlush = func(f *node.Flush) {
			time.Sleep(3 * time.Millisecond)
			answering(node.Answer{Vote: node.Granted, Replied: true})(f)
		}
		for range 10 {
			require.NoError(t, wait(m.Acquire(claim("a", "t"), time.Minute, 1), t.Context()))
		}
		synctest.Wait()
		s := m.Nodes()[0].Counts
		require.Equal(t, uint64(10), s.Flushes.Load())
		require.Equal(t, uint64(10), s.Operations.Load())
		require.Equal(t, uint64(10), s.Latency.Snapshot().Total())
		require.Equal(t, 30*time.Millisecond, s.Latency.Snapshot().Sum)
		n.Link.SetState(link.Connecting, errBroken)
		n.Link.SetState(link.Down, errBroken)
		n.Link.SetState(link.Up, nil)
		require.Equal(t, uint64(2), s.Connects.Load())
		require.Equal(t, uint64(1), s.Disconnects.Load())
	})
}

// The goal: a server that breaks the protocol is counted apart from a connection that breaks, also
// through rueidis.
func TestMetrics_CountAProtocolError(t *testing.T) {
	onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
		actors[2].play(map[string]string{"SET": "?what\r\n"})
		require.NoError(t, wait(m.Acquire(claim("a", "t"), time.Minute, 1), t.Context()))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, map[string]uint64{"Protocol": 1}, failures(m, 2))
		require.Equal(t, uint64(1), m.Nodes()[2].Counts.Disconnects.Load())
	})
}

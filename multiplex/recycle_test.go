package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

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

// extending returns an extension of a claim that is held, of which a quorum has told, and which
// node 2 of three holds back.
func extending(t *testing.T, m *Mux) (c *Claim, e *Attempt, goOn func()) {
	t.Helper()
	c = claim("k", "token")
	require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
	time.Sleep(10 * time.Millisecond) // every node has answered
	synctest.Wait()
	goOn = stopped(m, 2)
	e = m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
	require.NoError(t, wait(e, t.Context()))
	synctest.Wait()
	return c, e, goOn
}

// used reports whether somebody may still refer to the attempt.
func used(e *Attempt) bool {
	synctest.Wait()
	return e.claim != nil
}

// The goal: the memory of an extension is not used again while a node has not answered, or its
// caller is not done with it, whichever comes last. Otherwise the answer would count as a vote for
// another lease.
func TestRecycle_WaitsForTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		_, e, goOn := extending(t, m)
		e.Done()
		require.True(t, used(e), "a node has not answered")
		goOn()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.False(t, used(e))
	})
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		_, e, goOn := extending(t, m)
		goOn()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.True(t, used(e), "the caller has not done with it")
		e.Done()
		require.False(t, used(e))
	})
}

// The goal: an extension that a node leaves out, because its claim was released meanwhile, is not
// used again before that node is done with it. It is not sent there.
func TestRecycle_WaitsForANodeThatLeavesItOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		c, other := claim("k", "token"), claim("other", "other")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		goOn := stopped(m, 2)
		m.Acquire(other, time.Minute, 1)
		synctest.Wait() // node 2 has a flush under way, behind which the extension waits
		e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
		require.NoError(t, wait(e, t.Context()))
		released := m.Release(c, 1)
		e.Done()
		require.True(t, used(e))
		goOn()
		require.NoError(t, wait(released, t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, used(e))
		require.Equal(t, map[string]string{"other": "other"}, stores[2].left())
	})
}

// The goal: an extension that was taken out of its round is never used again: no node tells when
// nobody has it any more. It is sent to no node.
func TestRecycle_LeavesOutACancelledExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		c, other := claim("k", "token"), claim("other", "other")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		var resume [3]func()
		for i, s := range stores {
			s.free("k") // an extension would give it back
			resume[i] = stopped(m, i)
		}
		m.Acquire(other, time.Minute, 1)
		synctest.Wait() // all nodes have a trip under way, behind which the round stays open
		e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
		released := m.Release(c, 1)
		require.ErrorIs(t, wait(e, t.Context()), ErrNoQuorum)
		e.Done()
		for _, goOn := range resume {
			goOn()
		}
		require.NoError(t, wait(released, t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, used(e))
		for _, s := range stores {
			require.Equal(t, map[string]string{"other": "other"}, s.left())
		}
	})
}

// The goal: an extension that came behind the release was sent to no node. So it never becomes
// reusable, and the release stays.
func TestRecycle_LeavesOutAnExtensionThatCameTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		c := claim("k", "token")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		released := m.Release(c, 1)
		e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
		require.ErrorIs(t, wait(e, t.Context()), ErrNoQuorum)
		e.Done()
		require.NoError(t, wait(released, t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, used(e))
		require.Same(t, released, m.Release(c, 1))
	})
}

// The goal: extensions cost no memory of their own: a hundred thousand held leases must not keep
// the garbage collector busy.
func TestRecycle_AnExtensionUsesTheMemoryOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		c := claim("k", "token")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		again := 0
		seen := map[*Attempt]bool{}
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
			require.NoError(t, wait(e, t.Context()))
			if seen[e] {
				again++
			}
			seen[e] = true
			e.Done()
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Greater(t, again, 20, "of 100; with the race detector a pool drops a quarter of "+
			"what it is given")
	})
}

// The goal: a release that comes while an extension gets its last answer does not read memory that
// is in use again. It is for the race detector: what it has to find is a moment between two locks.
func TestRecycle_AReleaseDuringTheLastAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for _, nd := range m.nodes {
			nd.SendFlush = all(node.Answer{Vote: node.Granted, Replied: true})
		}
		last := m.nodes[2].SendFlush
		for range 3000 {
			c := claim("k", "token")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			synctest.Wait()
			gate := make(chan struct{})
			m.nodes[2].SendFlush = func(f *node.Flush) {
				<-gate
				last(f)
			}
			e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
			require.NoError(t, wait(e, t.Context()))
			e.Done()
			synctest.Wait()
			m.nodes[2].SendFlush = last
			close(gate)
			require.NoError(t, wait(m.Release(c, 1), t.Context()))
			synctest.Wait()
		}
	})
}

// The goal: an acquire and a release in the memory of their lease allocate nothing each, and no
// memory is used twice: a node may still answer the attempt that has it.
func TestAttempts_AreUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		c, memory := claim("k", "token"), new(Attempts)
		c.UseMemory(memory)
		first := m.Acquire(c, time.Minute, 1)
		require.Same(t, &memory.acquire, first)
		require.NoError(t, wait(first, t.Context()))
		e := m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1)
		require.NoError(t, wait(e, t.Context()))
		require.NotSame(t, &memory.acquire, e, "that of an extension is recycled")
		require.NotSame(t, &memory.acquire, m.emptyAttempt(c, node.Acquire))
		release := m.Release(c, 1)
		require.Same(t, &memory.release, release)
		require.Same(t, release, m.Release(c, 1))
		require.NoError(t, wait(release, t.Context()))
		time.Sleep(10 * time.Millisecond)
	})
}

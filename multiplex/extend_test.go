package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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

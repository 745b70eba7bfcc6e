package restartguard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/quorum"
)

// unmarked is the second look at a node that is as it was.
func unmarked() (bool, error) { return true, nil }

// joins is join where only the decision matters.
func joins(ctx context.Context, f *firstUse, node int) bool {
	first, err := f.await(ctx, node, unmarked)
	return first && err == nil
}

// joining lets these nodes join, and returns what each learns.
func joining(f *firstUse, nodes ...int) []chan bool {
	learned := make([]chan bool, len(nodes))
	for k, i := range nodes {
		learned[k] = make(chan bool, 1)
		go func() { learned[k] <- joins(context.Background(), f, i) }()
	}
	synctest.Wait()
	return learned
}

// The goal: it is the first use when connections of all nodes wait at the same moment, at once and
// for each of them; and never again, also not for a node that could not make use of it.
func TestFirstUse_IsWhenAllNodesMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3, new(sync.Mutex))
		begin := time.Now()
		learned := joining(f, 0, 1)
		require.Empty(t, learned[0])
		last := joining(f, 2)
		require.True(t, <-learned[0])
		require.True(t, <-learned[1])
		require.True(t, <-last[0])
		require.Equal(t, begin, time.Now())
		require.False(t, f.isPossible())
		require.False(t, joins(t.Context(), f, 1))
		require.Equal(t, begin, time.Now(), "nobody waits for what is decided")
	})
}

// The goal: nodes that wait one after another do not meet; and they meet later, when they come
// again.
func TestFirstUse_NeedsAllNodesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(2, new(sync.Mutex))
		begin := time.Now()
		require.False(t, joins(t.Context(), f, 0))
		require.Equal(t, firstUseTimeout, time.Since(begin))
		require.False(t, joins(t.Context(), f, 1))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin = time.Now()
		require.False(t, joins(ctx, f, 1))
		require.Less(t, time.Since(begin), 100*time.Millisecond, "time is left for the rest")
		ended, end := context.WithCancel(t.Context())
		end()
		require.False(t, joins(ended, f, 1))
		_, err := f.await(t.Context(), 1, func() (bool, error) {
			return false,
				errors.New("a look, and the other has left")
		})
		require.NoError(t, err)
		require.True(t, f.isPossible())
		learned := joining(f, 0, 1)
		require.True(t, <-learned[0] && <-learned[1])
	})
}

// The goal: while it may be the first use, the nodes are known that keep the others waiting: those
// that did not come, or were there and are down now.
func TestFirstUse_KnowsWhichNodesAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3, new(sync.Mutex))
		f.addUnguarded(2)
		missing, possible := f.missing()
		require.True(t, possible)
		require.Equal(t, quorum.Node(0)|quorum.Node(1), missing)
		require.False(t, joins(t.Context(), f, 0))
		missing, _ = f.missing()
		require.Equal(t, quorum.Node(1), missing, "a node that waited once is there until it is down")
		require.False(t, joins(t.Context(), f, 1))
		f.setDown(0)
		missing, _ = f.missing()
		require.Equal(t, quorum.Node(0), missing)
		f.ruleOut()
		_, possible = f.missing()
		require.False(t, possible)
	})
}

// The goal: a node that waits for the first use says which nodes keep it waiting, a few by their
// names.
func TestFirstUse_ReasonNamesTheMissingNodes(t *testing.T) {
	addresses := []string{"a", "b", "c", "d", "e", "f", "g"}
	for want, missing := range map[string]quorum.Nodes{
		"but not all of them answered at the same time: if they do, all vote at once": 0,
		"and b is down: if it comes and has none either, all vote at once":            quorum.Node(1),
		"and a, g are down: if they come and have none either, all vote at once": quorum.Node(0) |
			quorum.Node(6),
		"and a, b, c, d, e, ... are down": quorum.First(7),
	} {
		require.Contains(t, firstUseReason(addresses, missing),
			"first use? no node has a marker yet, "+want)
	}
}

// The goal: one marker anywhere, or one node that was admitted, ends the chance for all, also for
// those that wait.
func TestFirstUse_IsRuledOutByAMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3, new(sync.Mutex))
		begin := time.Now()
		learned := joining(f, 0, 1)
		f.ruleOut()
		f.ruleOut()
		require.False(t, <-learned[0] || <-learned[1])
		require.False(t, joins(t.Context(), f, 2))
		require.Equal(t, begin, time.Now())
		time.Sleep(time.Second)
		f.ruleOut()
		require.Equal(t, time.Second, f.decidedFor(), "since the first time")

		f = newFirstUse(1, new(sync.Mutex))
		first, err := f.await(t.Context(), 0, func() (bool, error) {
			f.ruleOut()
			return true, nil
		})
		require.NoError(t, err)
		require.False(t, first, "it was ruled out while the last one looked")
	})
}

// The goal: a node that can't have a marker does not keep the others from their first use.
func TestFirstUse_AnUnguardedNodeCountsAsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3, new(sync.Mutex))
		f.addUnguarded(2)
		learned := joining(f, 0, 1)
		require.True(t, <-learned[0] && <-learned[1])
		f = newFirstUse(2, new(sync.Mutex))
		learned = joining(f, 0)
		f.addUnguarded(1)
		require.True(t, <-learned[0])
	})
}

// The goal: what was seen before all met does not count. A marker that is there by then ends the
// chance for all; a node that breaks then only lets the others wait for its next connection.
func TestFirstUse_AllNodesLookAgainWhenTheyHaveMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3, new(sync.Mutex))
		learned := joining(f, 0, 1)
		first, err := f.await(t.Context(), 2, func() (bool, error) { return false, nil })
		require.NoError(t, err)
		require.False(t, first || <-learned[0] || <-learned[1])
		require.False(t, f.isPossible())

		f = newFirstUse(3, new(sync.Mutex))
		learned = joining(f, 0)
		looks, second := 0, make(chan bool, 1)
		go func() {
			first, _ := f.await(context.Background(), 1, func() (bool, error) {
				looks++
				return true,
					nil
			})
			second <- first
		}()
		broke := errors.New("it broke")
		_, err = f.await(t.Context(), 2, func() (bool, error) {
			synctest.Wait()
			return false,
				broke
		})
		require.ErrorIs(t, err, broke)
		require.True(t, f.isPossible())
		require.Equal(t, 1, looks)
		require.True(t, joins(t.Context(), f, 2))
		require.True(t, <-learned[0] && <-second)
		require.Equal(t, 2, looks, "the first one was before the other came again")
	})
}

// The goal: who looked again in vain, because another has left since, looks once more when all meet
// the next time.
func TestFirstUse_ASecondLookIsWorthNothingWhenAnotherHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(2, new(sync.Mutex))
		looks := 0
		first := make(chan bool, 1)
		go func() {
			ok, _ := f.await(context.Background(), 0, func() (bool, error) {
				looks++
				time.Sleep(10 * time.Millisecond)
				return true, nil
			})
			first <- ok
		}()
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer leave()
		_, _ = f.await(ctx, 1, func() (bool, error) { return true, ctx.Err() })
		time.Sleep(20 * time.Millisecond)
		require.Empty(t, first)
		require.True(t, joins(t.Context(), f, 1))
		require.True(t, <-first)
		require.Equal(t, 2, looks)
	})
}

// The goal: all that have confirmed are granted the first use, also one whose patience ends at that
// moment.
func TestFirstUse_IsGrantedToAllOrNone(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			f := newFirstUse(2, new(sync.Mutex))
			learned := joining(f, 0)
			time.Sleep(firstUseTimeout - time.Millisecond)
			second, err := f.await(t.Context(), 1, func() (bool, error) {
				time.Sleep(time.Millisecond) // until the patience of the other is over
				return true, nil
			})
			require.NoError(t, err)
			require.Equal(t, second, <-learned[0])
		})
	}
}

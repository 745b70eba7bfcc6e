package multiplex

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// joining lets these nodes join, and gives what each is told.
func joining(f *firstUse, nodes ...int) []chan bool {
	told := make([]chan bool, len(nodes))
	for k, i := range nodes {
		told[k] = make(chan bool, 1)
		go func() { told[k] <- f.join(context.Background(), i) }()
	}
	synctest.Wait()
	return told
}

// The goal: it is the first use when connections of all nodes wait at the same moment, at once and for each of them; and never again, also
// not for a node that could not make use of it.
func TestTheFirstUseIsWhenAllNodesMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3)
		begin := time.Now()
		told := joining(f, 0, 1)
		require.Empty(t, told[0])
		last := joining(f, 2)
		require.True(t, <-told[0])
		require.True(t, <-told[1])
		require.True(t, <-last[0])
		require.Equal(t, begin, time.Now())
		require.False(t, f.possible())
		require.False(t, f.join(t.Context(), 1))
		require.Equal(t, begin, time.Now(), "nobody waits for what is decided")
	})
}

// The goal: nodes that wait one after another do not meet; and they meet later, when they come again.
func TestNodesThatDoNotMeetAreNoFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(2)
		begin := time.Now()
		require.False(t, f.join(t.Context(), 0))
		require.Equal(t, firstUsePatience, time.Since(begin))
		require.False(t, f.join(t.Context(), 1))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin = time.Now()
		require.False(t, f.join(ctx, 1))
		require.Less(t, time.Since(begin), 100*time.Millisecond, "time is left for the rest")
		require.True(t, f.possible())
		told := joining(f, 0, 1)
		require.True(t, <-told[0] && <-told[1])
	})
}

// The goal: one marker anywhere, or one node that was admitted, ends the chance for all, also for those that wait.
func TestAMarkerRulesOutTheFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3)
		begin := time.Now()
		told := joining(f, 0, 1)
		f.ruleOut()
		f.ruleOut()
		require.False(t, <-told[0] || <-told[1])
		require.False(t, f.join(t.Context(), 2))
		require.Equal(t, begin, time.Now())
	})
}

// The goal: a node that can't have a marker does not keep the others from their first use.
func TestAnUnguardedNodeCountsAsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFirstUse(3)
		f.exempt(2)
		told := joining(f, 0, 1)
		require.True(t, <-told[0] && <-told[1])
		f = newFirstUse(2)
		told = joining(f, 0)
		f.exempt(1)
		require.True(t, <-told[0])
	})
}

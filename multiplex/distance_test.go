package multiplex

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: to a node that no trip since its connection reached quickly, few keys leave beside a flush under way; one quick trip is
// enough to know better, and slow ones behind it change nothing.
func TestOnlyToAFarNodeDoFewKeysLeaveBesideAFlush(t *testing.T) {
	var d distance
	require.Equal(t, besideNear, d.beside(), "nothing is known yet")
	d.travelled(3 * time.Millisecond)
	require.Equal(t, besideFar, d.beside())
	d.travelled(farFrom)
	require.Equal(t, besideFar, d.beside())
	d.travelled(farFrom - 1)
	require.Equal(t, besideNear, d.beside())
	d.travelled(time.Second)
	require.Equal(t, besideNear, d.beside())
	d.forgetDistance()
	d.travelled(time.Second)
	require.Equal(t, besideFar, d.beside(), "another connection may have another way")
}

// The goal: the distance of a node is told by trips that it answered, not by those that did not leave.
func TestATripThatDidNotLeaveTellsNoDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		n := m.nodes[0]
		n.travelled(3 * time.Millisecond)
		n.trip = func(_ []*Attempt, answers []answer) {
			for i := range answers {
				answers[i] = answer{nothing: true, err: errStale}
			}
		}
		require.Error(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), context.Background()))
		require.Equal(t, besideFar, n.beside())
	})
}

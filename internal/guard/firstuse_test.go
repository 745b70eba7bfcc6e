package guard

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

func newFirstUse(nodes int) *firstUse {
	return &firstUse{nodes: quorum.First(nodes), texts: make([]string, nodes)}
}

// The goal: nodes are admitted when all of them had the same new records in two looks, and each
// only once.
func TestFirstUse_LooksAtAllTwice(t *testing.T) {
	f, now := newFirstUse(3), time.Now()
	look := func(node int, text string) bool {
		t.Helper()
		return f.look(node, text, now, now)
	}
	for range 3 {
		require.False(t, look(0, "a"))
		require.False(t, look(1, "b"))
	}
	require.False(t, look(2, "c"), "all were seen once")
	for range 3 {
		require.False(t, look(0, "a"), "too early")
	}
	asked := now
	now = now.Add(settles)
	require.False(t, f.look(0, "a", asked, now), "the reply is late")
	require.Zero(t, f.seen)
	require.False(t, look(0, "a"))
	require.False(t, look(1, "b"))
	require.False(t, look(1, "b"))
	require.False(t, look(2, "c"))
	require.True(t, look(1, "b"))
	require.False(t, look(1, "b"), "once")
	require.False(t, look(0, "x"), "it was wiped meanwhile")
	f.ruleOut(0, now)
	require.True(t, look(2, "c"), "it has begun")
	require.Equal(t, over, f.stage)
	require.False(t, look(2, "c"))
}

// The goal: a record that changes before all were seen twice begins it all again.
func TestFirstUse_BeginsAgain(t *testing.T) {
	f, now := newFirstUse(2), time.Now()
	require.False(t, f.look(0, "a", now, now))
	require.False(t, f.look(1, "b", now, now))
	now = now.Add(settles)
	require.False(t, f.look(0, "a", now, now))
	require.False(t, f.look(1, "x", now, now), "another record")
	for range 3 {
		require.False(t, f.look(1, "x", now, now), "node 0 has to be seen again")
		now = now.Add(settles)
	}
	require.Equal(t, looks, f.stage)
	f.ruleOut(1, now)
	require.False(t, f.look(0, "a", now, now))
	require.Equal(t, over, f.stage)
}

// The goal: a node that can't have a key is not waited for.
func TestFirstUse_WithoutSomeNodes(t *testing.T) {
	f, now := newFirstUse(2), time.Now()
	require.False(t, f.look(0, "a", now, now))
	f.without(1, now)
	now = now.Add(settles)
	require.False(t, f.look(0, "a", now, now))
	require.True(t, f.look(0, "a", now, now))
}

// The goal: the reason names nodes that are missing, five at most.
func TestFirstUse_NamesMissingNodes(t *testing.T) {
	f := newFirstUse(8)
	var guards []*Guard
	for i := range 8 {
		guards = append(guards, &Guard{config: Config{Name: fmt.Sprint("n", i)}})
	}
	require.Contains(t, f.reason(guards), "waiting for n0, n1, n2, n3, n4 to decide")
	for i := range 8 {
		if i != 3 {
			f.look(i, "x", time.Now(), time.Now())
		}
	}
	require.Contains(t, f.reason(guards), "waiting for n3 to decide")
	f.look(3, "x", time.Now(), time.Now())
	require.Contains(t, f.reason(guards),
		"all nodes at the same time to decide whether the nodes are new")
}

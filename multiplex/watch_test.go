package multiplex

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// up waits until all nodes are up.
func up(t *testing.T, m *Mux) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, n := range m.Nodes() {
			if n.State != NodeUp {
				return false
			}
		}
		return true
	}, patient, time.Millisecond)
}

// owner is a watch and what it was told.
type owner struct {
	*Watch
	woken chan struct{}
}

func watching(m *Mux, key string) *owner {
	o := &owner{woken: make(chan struct{}, 100)}
	o.Watch = m.Watch(key, func() { notify(o.woken) })
	return o
}

func (o *owner) await(t *testing.T) {
	t.Helper()
	select {
	case <-o.woken:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "not woken")
	}
}

// arm arms the watch, and returns what the node answered.
func (o *owner) arm(t *testing.T, node int) (time.Duration, bool) {
	t.Helper()
	o.Arm(node)
	o.await(t)
	return o.Left()
}

func do(t *testing.T, nodes *lockpipetest.Nodes, args ...string) {
	t.Helper()
	_, err := nodes.Do(0, args...)
	require.NoError(t, err)
}

// The goal: the answer is the time left, and a deletion or a renewal by another client is told
// once, until the watch is armed again.
func TestAWatchIsToldOfChanges(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	// Which would not let the flushed node vote.
	m := start(t, nodes.URLs(), func(c *Config) { c.Guard = GuardOff })
	up(t, m)
	w := watching(m, "k")
	defer w.Close()
	left, known := w.arm(t, 0)
	require.True(t, known && left == 0, "the key is missing")
	require.True(t, w.Told())
	for _, change := range [][]string{
		{"SET", "k", "v"},
		{"DEL", "k"},
		{"PEXPIRE", "k", "90000"},
		{"FLUSHALL"},
	} {
		do(t, nodes, change...)
		w.await(t)
		_, known = w.Left()
		require.False(t, known, "%s struck it off", change)
		do(t, nodes, "SET", "k", "v")
		left, known = w.arm(t, 0) // its answer comes behind what else the node has told
		require.True(t, known)
		require.Equal(t, Forever, left)
		require.Empty(t, w.woken, "told once")
		do(t, nodes, "PEXPIRE", "k", "60000")
		w.await(t)
		left, known = w.arm(t, 0)
		require.True(t, known)
		require.InDelta(t, time.Minute, left, float64(30*time.Second))
	}
}

// The goal: our own release is told as well.
func TestAWatchIsToldOfOurOwnRelease(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	c, w := claim("k", "t"), watching(m, "k")
	require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
	left, known := w.arm(t, 0)
	require.True(t, known && left > 0)
	require.NoError(t, wait(m.Release(c, 1), t.Context()))
	w.await(t)
	_, known = w.Left()
	require.False(t, known)
}

// The goal: a lost connection wakes all watches, and they can be armed on the next one.
func TestALostConnectionWakesAndAWatchIsArmedAgain(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	do(t, nodes, "SET", "k", "v", "PX", "60000")
	w := watching(m, "k")
	for range 3 {
		require.Eventually(t, func() bool {
			_, known := w.arm(t, 0)
			return known &&
				len(w.woken) == 0
		}, patient, time.Millisecond)
		do(t, nodes, "CLIENT", "KILL", "TYPE", "normal")
		w.await(t)
		_, known := w.Left()
		require.False(t, known)
		up(t, m)
	}
	require.Eventually(t, func() bool {
		_, known := w.arm(t, 0)
		return known &&
			len(w.woken) == 0
	}, patient, time.Millisecond)
	do(t, nodes, "DEL", "k")
	w.await(t)
}

// The goal: a server without tracking, or that does not permit it, serves locks all the same, and
// tells the time left.
func TestServersWithoutTrackingTellTheTimeLeft(t *testing.T) {
	check := func(t *testing.T, urls []string) {
		m := start(t, urls, nil)
		up(t, m)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		w := watching(m, "k")
		left, known := w.arm(t, 0)
		require.True(t, known && left > 50*time.Second)
		require.False(t, w.Told())
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		many := new(Claim)
		many.Init("", []string{"a", "b"}, "t")
		before := m.Nodes()
		require.NoError(t, wait(m.Acquire(many, time.Minute, 2), t.Context()), "%v", before)
	}
	t.Run("in-process", func(t *testing.T) {
		nodes, err := lockpipetest.StartInProcess(1)
		require.NoError(t, err)
		defer func() { require.NoError(t, nodes.Close()) }()
		check(t, nodes.URLs())
	})
	t.Run("forbidden", func(t *testing.T) {
		nodes := lockpipetest.StartRealT(t, 1)
		do(t, nodes, "ACL", "SETUSER", "default", "-client|tracking", "-client|caching")
		check(t, nodes.URLs())
	})
}

// The goal: watches that are armed together share trips, and each is answered.
func TestManyWatchesUseFewFlushes(t *testing.T) {
	const n = 1000
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		var woken atomic.Int32
		for i := range n {
			w := m.Watch(fmt.Sprint("k", i), func() { woken.Add(1) })
			w.Arm(0)
			w.Arm(0) // an answer is owed already
		}
		time.Sleep(time.Second)
		require.Equal(t, int32(n), woken.Load())
		stats := m.Stats()
		require.LessOrEqual(t, stats.Flushes, uint64(10))
		require.Equal(t, uint64(n), stats.Operations)
		stop()
	})
}

// The goal: what the node tells before its answer is read is not lost, and the answer that comes
// late does not hide it.
func TestAChangeBeforeTheAnswerIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		n := m.nodes[0]
		gate := make(chan struct{})
		look := n.queryWatches
		n.queryWatches = func(arms []*arm, answers []remains) { <-gate; look(arms, answers) }
		w, other := watching(m, "k"), watching(m, "k")
		w.Arm(0)
		other.Arm(0)
		synctest.Wait()
		n.watches.changed("k")
		w.await(t)
		other.await(t)
		w.Arm(0) // while the first answer is still to come
		close(gate)
		w.await(t)
		_, known := w.Left()
		require.True(t, known)
		_, known = other.Left()
		require.False(t, known, "it was struck off")
		n.watches.changed("k")
		w.await(t)
		synctest.Wait()
		require.Empty(t, other.woken)
		require.Empty(t, n.watches.armed)
	})
}

// The goal: on a node that is down, and after Close, arming is harmless and told at once. Close
// leaves nothing.
func TestArmingWhereNothingCanBeSentIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		n := m.nodes[0]
		w := watching(m, "k")
		n.setState(NodeDown, errBroken)
		_, known := w.arm(t, 0)
		require.False(t, known)
		require.Empty(t, n.watches.armed)
		n.setState(NodeUp, nil)
		_, known = w.arm(t, 0)
		require.True(t, known)
		n.watches.lost(true)
		w.await(t)
		_, known = w.arm(t, 0)
		require.False(t, known)
		require.Empty(t, n.watches.armed)
		w.Close()
		w.Close()
		w.Arm(0)
		require.Empty(t, w.woken, "a closed watch is told nothing")
		stop()
	})
}

// The goal: closing a watch takes it off its node, between others of its key, sent or not.
func TestAClosedWatchLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(2, 1, 0)
		var all []*owner
		for range 5 {
			w := watching(m, "k")
			w.Arm(0)
			w.Arm(1)
			all = append(all, w)
		}
		for _, i := range []int{2, 4, 0} {
			all[i].Close()
		}
		time.Sleep(time.Second)
		require.Empty(t, all[2].woken)
		m.nodes[0].watches.changed("k")
		require.Len(t, all[1].woken, 3, "two answers and the change")
		require.Len(t, all[3].woken, 3)
		require.Empty(t, all[0].woken)
		all[1].Close()
		all[3].Close()
		require.Empty(t, m.nodes[0].watches.armed)
		require.Empty(t, m.nodes[1].watches.armed)
		stop()
	})
}

// The goal: Close ends with watches armed, being armed, and on a frozen node, and leaves no
// goroutine.
func TestCloseEndsWatches(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 2)
	before := runtime.NumGoroutine()
	m, err := New(Config{
		Nodes: nodes.URLs(), NodeTimeout: time.Second, TTL: time.Minute,
		MaxTTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	up(t, m)
	armed := watching(m, "a")
	_, known := armed.arm(t, 0)
	require.True(t, known)
	require.NoError(t, nodes.Freeze(1))
	hanging := watching(m, "h")
	hanging.Arm(1)
	var arming sync.WaitGroup
	for g := range 4 {
		arming.Go(func() {
			for i := range 2000 {
				w := m.Watch(fmt.Sprint(g, "/", i), func() {})
				w.Arm(0)
				if i%2 == 0 {
					w.Close()
				}
			}
		})
	}
	require.NoError(t, m.Close(context.Background()))
	armed.await(t)
	hanging.await(t)
	arming.Wait()
	for _, n := range m.nodes {
		n.watches.mu.Lock()
		require.True(t, n.watches.closed, "also where no connection was there to be lost")
		require.Empty(t, n.watches.armed)
		n.watches.mu.Unlock()
	}
	_, known = armed.arm(t, 0)
	require.False(t, known)
	for begin := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(begin), 10*time.Second, "goroutines are left")
	}
}

// The goal: a key whose time left does not fit into a Duration lasts for ever. It has not ended.
func TestAWatchOfAKeyThatLastsForAges(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	w := watching(m, "k")
	defer w.Close()
	do(t, nodes, "SET", "k", "v", "PX", "9000000000000000000")
	left, known := w.arm(t, 0)
	require.True(t, known)
	require.Equal(t, Forever, left)
}

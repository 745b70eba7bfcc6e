package interop

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// contestedKey is a key and a counter. Its holders count in two steps, so that a second holder
// would be noticed or would lose a count.
type contestedKey struct {
	key     string
	holders atomic.Int64
	counter atomic.Int64
}

// hold counts while l holds the key, and meanwhile reads the key on each master.
func (c *contestedKey) hold(ctx context.Context, l locker, nodes *lockpipetest.Nodes) error {
	held, err := l.wait(ctx, c.key, longTTL)
	if err != nil {
		return err
	}
	if n := c.holders.Add(1); n != 1 {
		return fmt.Errorf("%s: %d holders at the same time", c.key, n)
	}
	before, have := c.counter.Load(), 0
	for i := range nodes.Len() {
		value, err := nodes.Do(i, "GET", c.key)
		if err != nil {
			return err
		}
		if text, _ := value.(string); isValue(text, held.value) {
			have++
		}
	}
	if 2*have <= nodes.Len() {
		return fmt.Errorf("%s: held by %d of %d masters", c.key, have, nodes.Len())
	}
	if time.Now().After(held.until) {
		return fmt.Errorf("%s: the lock ended at %v", c.key, held.until)
	}
	c.counter.Store(before + 1)
	c.holders.Add(-1)
	return held.release(ctx)
}

// runContenders lets all lockers hold each key, rounds times each, all at once.
func runContenders(t *testing.T, nodes *lockpipetest.Nodes, rounds int, lockers []locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	keys := []*contestedKey{{key: prefix + t.Name() + "/1"}, {key: prefix + t.Name() + "/2"}}
	group, ctx := errgroup.WithContext(ctx)
	for n, l := range lockers {
		group.Go(func() error {
			for i := range rounds * len(keys) {
				if err := keys[(n+i)%len(keys)].hold(ctx, l, nodes); err != nil {
					return fmt.Errorf("%T: %w", l, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	for _, key := range keys {
		require.EqualValues(t, rounds*len(lockers), key.counter.Load(), key.key)
	}
	for _, l := range lockers {
		closeOurs(t, l)
	}
	for _, key := range keys {
		require.Equal(t, make([]string, nodes.Len()), onMasters(t, nodes, key.key))
	}
}

// openEach opens count lockers of each library.
func openEach(t *testing.T, nodes *lockpipetest.Nodes, libraries []library, count int) []locker {
	t.Helper()
	var lockers []locker
	for _, l := range libraries {
		for range count {
			lockers = append(lockers, l.open(t, nodes.URLs()))
		}
	}
	return lockers
}

// The goal: callers of lockpipe and of another library that want the same keys all get them, and
// never two at the same time.
func TestContention_WithEachLibrary(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		lockers := append(openEach(t, nodes, ours, 2), openEach(t, nodes, []library{their}, 3)...)
		runContenders(t, nodes, 10, lockers)
	})
}

// The goal: the same with all libraries at once.
func TestContention_OfAllLibraries(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d masters", n), func(t *testing.T) {
			nodes := lockpipetest.StartRealT(t, n)
			lockers := append(openEach(t, nodes, ours, 1), openEach(t, nodes, theirs, 1)...)
			runContenders(t, nodes, 20, lockers)
		})
	}
}

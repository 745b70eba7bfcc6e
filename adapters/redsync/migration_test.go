package redsync_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: while only a part of a code base has moved, what one part has locked is taken for the
// other, also after an extension, and free at once after Unlock.
func TestMigration_BothExcludeEachOther(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 5)
	moved, old := openLockpipe(t, nodes), openRedsync(t, nodes)
	for name, sides := range map[string][2]library{
		"new, then old": {moved, old},
		"old, then new": {old, moved},
	} {
		t.Run(name, func(t *testing.T) {
			held, other := sides[0].newMutex(t.Name(), settings{expiry: longExpiry}),
				sides[1].newMutex(t.Name(), tries(1))
			require.NoError(t, held.Lock())
			require.True(t, sides[1].taken(other.Lock()))
			ok, err := held.Extend()
			require.True(t, ok, "%v", err)
			require.True(t, sides[1].taken(other.TryLock()))
			requireHeld(t, nodes, held)
			ok, err = held.Unlock()
			require.True(t, ok, "%v", err)
			require.NoError(t, other.TryLock())
			requireHeld(t, nodes, other)
			ok, err = held.Unlock()
			require.False(t, ok)
			require.Error(t, err)
			requireHeld(t, nodes, other)
			ok, err = other.Unlock()
			require.True(t, ok, "%v", err)
			waitUntilFree(t, nodes, t.Name())
		})
	}
}

// The goal: when both sides contend for one mutex, all callers get it, and never two at the same
// time.
func TestMigration_BothGetTheMutex(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 5)
	sides := []library{
		openLockpipe(t, nodes), openRedsync(t, nodes), openLockpipe(t, nodes),
		openRedsync(t, nodes),
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	inside := make(chan struct{}, 1)
	results := make(chan error)
	for _, side := range sides {
		go func() {
			results <- func() error {
				for range 5 {
					m := side.newMutex(t.Name(), tries(1<<30))
					if err := m.LockContext(ctx); err != nil {
						return err
					}
					select {
					case inside <- struct{}{}:
					default:
						return fmt.Errorf("another is inside")
					}
					time.Sleep(time.Millisecond)
					<-inside
					if ok, err := m.Unlock(); !ok {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range sides {
		require.NoError(t, <-results)
	}
	waitUntilFree(t, nodes, t.Name())
}

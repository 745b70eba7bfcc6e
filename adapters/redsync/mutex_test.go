package redsync_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// These tests check what redsync's own tests expect of a Mutex, and a little more, for both
// libraries. One of its tests has no counterpart here: a lock that is unlocked elsewhere, with
// WithValue.

// tries returns settings with n tries and short delays.
func tries(n int) settings {
	return settings{
		expiry: longExpiry, tries: n,
		delays: func(int) time.Duration { return 5 * time.Millisecond },
	}
}

// The goal: Lock and TryLock lock on a majority, also of an even number of nodes. Unlock leaves
// nothing.
func TestMutex_LockIsOnAMajority(t *testing.T) {
	for _, masters := range []int{1, 4, 5} {
		t.Run(fmt.Sprint(masters), func(t *testing.T) {
			withEach(t, masters, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
				for name, lock := range map[string]func(mutex) error{
					"Lock":    mutex.Lock,
					"TryLock": mutex.TryLock,
				} {
					m := lib.newMutex(t.Name()+name, settings{expiry: longExpiry / 2})
					require.Equal(t, t.Name()+name, m.Name())
					require.Empty(t, m.Value())
					require.Zero(t, m.Until())
					before := time.Now()
					require.NoError(t, lock(m))
					requireHeld(t, nodes, m)
					require.WithinRange(t, m.Until(), before.Add(longExpiry/4),
						time.Now().Add(longExpiry/2))
					ok, err := m.Valid()
					require.NoError(t, err)
					require.True(t, ok)
					ok, err = m.Unlock()
					require.NoError(t, err)
					require.True(t, ok)
					waitUntilFree(t, nodes, m.Name())
				}
			})
		})
	}
}

// The goal: a mutex is locked if and only if a majority of the nodes is free, for every set of free
// nodes. A failure leaves nothing.
func TestMutex_MajorityOfFreeNodesDecides(t *testing.T) {
	withEach(t, 4, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		for mask := range 1 << nodes.Len() {
			m := lib.newMutex(fmt.Sprintf("%s/%04b", t.Name(), mask), tries(1))
			free := 0
			for i := range nodes.Len() {
				if mask>>i&1 == 0 {
					free++
					continue
				}
				_, err := nodes.Do(i, "SET", m.Name(), "another's")
				require.NoError(t, err)
			}
			err := m.Lock()
			if free >= nodes.Len()/2+1 {
				require.NoError(t, err)
				requireHeld(t, nodes, m)
				continue
			}
			require.Error(t, err)
			require.Empty(t, m.Value())
			require.Eventually(t, func() bool { return holders(t, nodes, m.Name(), "") == free },
				testTimeout, time.Millisecond)
			require.Equal(t, nodes.Len()-free, holders(t, nodes, m.Name(), "another's"))
		}
	})
}

// The goal: while a mutex is locked, each try of another caller is refused as taken, as often as
// WithTries says. The holder keeps it.
func TestMutex_LockedIsTaken(t *testing.T) {
	withEach(t, 5, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		first := lib.newMutex(t.Name(), settings{expiry: longExpiry})
		require.NoError(t, first.Lock())
		var asked []int
		second := lib.newMutex(t.Name(), settings{tries: 4, delays: func(tries int) time.Duration {
			asked = append(asked, tries)
			return 5 * time.Millisecond
		}})
		require.True(t, lib.taken(second.TryLock()))
		require.Empty(t, asked)
		require.True(t, lib.taken(second.Lock()))
		require.Equal(t, []int{1, 2, 3}, asked)
		require.True(t, lib.taken(first.TryLock()), "it is not reentrant")
		require.Error(t, lib.newMutex(t.Name(), settings{
			tries:  2,
			delays: func(int) time.Duration { return 0 },
		}).Lock())
		requireHeld(t, nodes, first)
		_, err := first.Unlock()
		require.NoError(t, err)
		require.NoError(t, second.TryLock())
		_, err = second.Unlock()
		require.NoError(t, err)
	})
}

// The goal: Lock waits until the mutex is free. Callers with different mutexes of one name never
// have it at the same time.
func TestMutex_LockWaitsForOthers(t *testing.T) {
	withEach(t, 5, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		const callers, rounds = 4, 5
		inside := make(chan struct{}, 1)
		results := make(chan error)
		for range callers {
			go func() {
				results <- func() error {
					for range rounds {
						m := lib.newMutex(t.Name(), tries(1<<30))
						if err := m.Lock(); err != nil {
							return err
						}
						select {
						case inside <- struct{}{}:
						default:
							return fmt.Errorf("another is inside")
						}
						<-inside
						if ok, err := m.Unlock(); !ok {
							return err
						}
					}
					return nil
				}()
			}()
		}
		for range callers {
			require.NoError(t, <-results)
		}
		waitUntilFree(t, nodes, t.Name())
	})
}

// The goal: the end of ctx ends Lock before its tries are over, and nothing is held.
func TestMutex_ContextEndsLock(t *testing.T) {
	withEach(t, 3, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		first := lib.newMutex(t.Name(), settings{expiry: longExpiry})
		require.NoError(t, first.Lock())
		ctx, cancel := context.WithCancel(t.Context())
		m := lib.newMutex(t.Name(), settings{tries: 3, delays: func(int) time.Duration {
			cancel()
			return time.Hour
		}})
		require.Error(t, m.LockContext(ctx))
		require.Empty(t, m.Value())
		require.Error(t, m.TryLockContext(ctx))
		_, err := first.Unlock()
		require.NoError(t, err)
		waitUntilFree(t, nodes, t.Name())
	})
}

// The goal: Extend gives the key its whole expiry again, and moves Until.
func TestMutex_ExtendGivesTheWholeExpiry(t *testing.T) {
	withEach(t, 5, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		m := lib.newMutex(t.Name(), settings{expiry: longExpiry})
		require.NoError(t, m.TryLock())
		until := m.Until()
		// As if most of the time had passed.
		doOnAll(t, nodes, "PEXPIRE", m.Name(), fmt.Sprint((longExpiry / 4).Milliseconds()))
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		require.True(t, m.Until().After(until))
		renewed := 0
		for i := range nodes.Len() {
			left, err := nodes.Do(i, "PTTL", m.Name())
			require.NoError(t, err)
			if left.(int64) > (longExpiry / 2).Milliseconds() {
				renewed++
			}
		}
		require.Greater(t, 2*renewed, nodes.Len())
		_, err = m.Unlock()
		require.NoError(t, err)
	})
}

// The goal: an expired mutex is neither extended nor unlocked. If another holder has it now, that
// holder keeps it. An expired mutex can be locked again.
func TestMutex_ExpiredIsNotLocked(t *testing.T) {
	withEach(t, 3, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		t.Parallel()
		m := lib.newMutex(t.Name(), settings{expiry: shortExpiry})
		require.NoError(t, m.Lock())
		letExpire(t, nodes, m)
		ok, _ := m.Valid() // redsync returns an error as well
		require.False(t, ok)
		ok, err := m.Extend()
		require.False(t, ok)
		require.True(t, lib.taken(err), "%v", err)
		ok, err = m.Unlock()
		require.False(t, ok)
		require.ErrorIs(t, err, lib.expired)

		another := lib.newMutex(t.Name(), settings{expiry: longExpiry})
		require.NoError(t, another.Lock())
		ok, err = m.Extend()
		require.False(t, ok)
		require.Error(t, err)
		ok, err = m.Unlock()
		require.False(t, ok)
		require.Error(t, err)
		requireHeld(t, nodes, another)
		_, err = another.Unlock()
		require.NoError(t, err)
		require.NoError(t, m.TryLock())
	})
}

// The goal: with WithSetNXOnExtend, Extend sets the key again on nodes that lost it, but does not
// take it from another holder. Only redsync locks an expired mutex again. The adapter refuses that,
// because another holder may have had it in between.
func TestMutex_SetNXOnExtend(t *testing.T) {
	withEach(t, 3, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		t.Parallel()
		m := lib.newMutex(t.Name(), settings{expiry: longExpiry, setNX: true})
		require.NoError(t, m.Lock())
		_, err := nodes.Do(0, "DEL", m.Name())
		require.NoError(t, err)
		ok := false
		for end := time.Now().Add(testTimeout); ; { // a slow node may miss what a quorum decided
			ok, err = m.Extend()
			require.NoError(t, err)
			require.True(t, ok)
			if holders(t, nodes, m.Name(), m.Value()) == 3 {
				break
			}
			require.True(t, time.Now().Before(end), "a node does not get the key again")
		}
		doOnAll(t, nodes, "SET", m.Name(), "another's")
		ok, err = m.Extend()
		require.False(t, ok)
		require.True(t, lib.taken(err), "%v", err)
		require.Equal(t, 3, holders(t, nodes, m.Name(), "another's"))

		m = lib.newMutex(t.Name()+"/expired", settings{expiry: shortExpiry, setNX: true})
		require.NoError(t, m.Lock())
		letExpire(t, nodes, m)
		ok, err = m.Extend()
		require.Equal(t, !lib.isLockpipe, ok)
		if lib.isLockpipe {
			require.ErrorIs(t, err, lockpipe.ErrExpired)
			waitUntilFree(t, nodes, m.Name())
		}
	})
}

// The goal: before Lock and after Unlock, a mutex is not extended, unlocked or valid.
func TestMutex_UnlockedIsNotLocked(t *testing.T) {
	withEach(t, 3, func(t *testing.T, _ *lockpipetest.Nodes, lib library) {
		m := lib.newMutex(t.Name(), settings{expiry: longExpiry})
		for range 2 {
			ok, err := m.Unlock()
			require.False(t, ok)
			require.ErrorIs(t, err, lib.expired)
			ok, err = m.Extend()
			require.False(t, ok)
			require.Error(t, err)
			ok, _ = m.Valid()
			require.False(t, ok)
			require.NoError(t, m.Lock())
			ok, err = m.Unlock()
			require.NoError(t, err)
			require.True(t, ok)
		}
	})
}

// The goal: a minority of dead nodes changes nothing. Without a majority every call fails, but not
// as taken.
func TestMutex_DeadNodes(t *testing.T) {
	for name, open := range libraries {
		t.Run(name, func(t *testing.T) {
			nodes := lockpipetest.StartRealT(t, 3)
			lib := open(t, nodes)
			held := lib.newMutex("held", settings{expiry: longExpiry})
			require.NoError(t, held.Lock())
			require.NoError(t, nodes.Kill(0))
			ok, err := held.Extend()
			require.True(t, ok, "%v", err)
			m := lib.newMutex("another", tries(1))
			require.NoError(t, m.Lock())
			ok, err = m.Unlock()
			require.True(t, ok, "%v", err)

			require.NoError(t, nodes.Kill(1))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err = m.TryLockContext(ctx)
			require.Error(t, err)
			require.False(t, lib.taken(err))
			ok, err = held.ExtendContext(ctx)
			require.False(t, ok)
			require.Error(t, err)
			require.False(t, lib.taken(err))
		})
	}
}

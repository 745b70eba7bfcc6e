package interop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// withEach runs test for each of their libraries, on three and on five masters.
func withEach(t *testing.T, test func(t *testing.T, nodes *lockpipetest.Nodes, their library)) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d masters", n), func(t *testing.T) {
			nodes := lockpipetest.StartRealT(t, n)
			for _, their := range theirs {
				t.Run(their.name, func(t *testing.T) { test(t, nodes, their) })
			}
		})
	}
}

// inBothOrders runs test with each of our lockers as the first and their one as the second, and the other way round, each time with
// a key of its own. Ours are opened for each run, theirs once.
func inBothOrders(t *testing.T, nodes *lockpipetest.Nodes, their library, test func(t *testing.T, first, second locker, key string)) {
	other := their.open(t, nodes.URLs())
	for _, our := range ours {
		name := our.name + ", then " + their.name
		t.Run(name, func(t *testing.T) { test(t, our.open(t, nodes.URLs()), other, prefix+t.Name()) })
		name = their.name + ", then " + our.name
		t.Run(name, func(t *testing.T) { test(t, other, our.open(t, nodes.URLs()), prefix+t.Name()) })
	}
}

// onMasters returns the value that each master has for key, empty where it has none.
func onMasters(t *testing.T, nodes *lockpipetest.Nodes, key string) []string {
	t.Helper()
	values := make([]string, nodes.Len())
	for i := range values {
		reply, err := nodes.Do(i, "GET", key)
		require.NoError(t, err)
		values[i], _ = reply.(string)
	}
	return values
}

// requireQuorum fails unless a majority of the masters has value for key.
func requireQuorum(t *testing.T, nodes *lockpipetest.Nodes, key, value string) {
	t.Helper()
	values := onMasters(t, nodes, key)
	others := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == value })
	require.Less(t, 2*len(others), len(values), "%q is not held by %q, but by %q", key, value, values)
}

// requireKept fails if a master that had value for key before has another now, or none.
func requireKept(t *testing.T, nodes *lockpipetest.Nodes, key, value string, before []string) {
	t.Helper()
	now := onMasters(t, nodes, key)
	for i := range before {
		require.False(t, before[i] == value && now[i] != value, "master %d: %q, and before %q", i, now[i], before[i])
	}
}

// take is try for a key that must be free.
func take(t *testing.T, l locker, key string, ttl time.Duration) *lock {
	t.Helper()
	held, err := l.try(t.Context(), key, ttl)
	require.NoError(t, err)
	return held
}

// requireTaken fails unless l is refused, because another holds key.
func requireTaken(t *testing.T, l locker, key string) {
	t.Helper()
	_, err := l.try(t.Context(), key, longTTL)
	require.ErrorIs(t, err, errTaken)
}

// The goal: what the one holds the other is refused, also after an extension; what the one released the other gets with its first
// attempt; and of all that nothing stays on any master.
func TestEachExcludesTheOtherUntilTheRelease(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		inBothOrders(t, nodes, their, func(t *testing.T, first, second locker, key string) {
			for _, turn := range [][2]locker{{first, second}, {second, first}} {
				held := take(t, turn[0], key, longTTL)
				requireTaken(t, turn[1], key)
				requireQuorum(t, nodes, key, held.value)

				for i := range nodes.Len() { // as if most of the time had passed
					nodes.Do(i, "PEXPIRE", key, fmt.Sprint((longTTL / 4).Milliseconds()))
				}
				require.NoError(t, held.extend(t.Context()))
				requireTTL(t, nodes, key, longTTL/2)
				requireTaken(t, turn[1], key)
				requireQuorum(t, nodes, key, held.value)
				require.NoError(t, held.release(t.Context()))
			}
			closeOurs(t, first, second)
			require.Equal(t, make([]string, nodes.Len()), onMasters(t, nodes, key))
		})
	})
}

// closeOurs returns when nothing that lockpipe sent is under way any more. The others have waited for all masters with each answer.
func closeOurs(t *testing.T, lockers ...locker) {
	t.Helper()
	for _, l := range lockers {
		if l, is := l.(*lockpipeLocker); is {
			l.close(t)
		}
	}
}

// requireTTL fails unless a majority of the masters keeps key for at least so long.
func requireTTL(t *testing.T, nodes *lockpipetest.Nodes, key string, least time.Duration) {
	t.Helper()
	longer := 0
	for i := range nodes.Len() {
		left, err := nodes.Do(i, "PTTL", key)
		require.NoError(t, err)
		if left.(int64) >= least.Milliseconds() {
			longer++
		}
	}
	require.Greater(t, 2*longer, nodes.Len(), "masters that keep the key for %v", least)
}

// The goal: the other gets what the one did not give back, but not before the one's time is over by its own account; and
// the one's late release is refused and does no harm.
func TestEachGetsWhatTheOtherLetExpire(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		t.Parallel()
		inBothOrders(t, nodes, their, func(t *testing.T, first, second locker, key string) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			late := take(t, first, key, shortTTL)
			requireTaken(t, second, key)
			held, err := second.wait(ctx, key, longTTL)
			require.NoError(t, err)
			require.False(t, time.Now().Before(late.until), "it got the lock before the other's time was over")

			before := onMasters(t, nodes, key)
			err = late.release(ctx)
			require.Error(t, err)
			if _, is := first.(*lockpipeLocker); is {
				require.ErrorIs(t, err, lockpipe.ErrExpired)
			}
			closeOurs(t, first)
			requireKept(t, nodes, key, held.value, before)
			require.NoError(t, held.extend(ctx))
			require.NoError(t, held.release(ctx))
		})
	})
}

// The goal: a lock that the masters forgot, and that the other has got since, is neither extended nor deleted by the one who had it.
func TestNeitherTouchesWhatTheOtherHasNow(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		inBothOrders(t, nodes, their, func(t *testing.T, first, second locker, key string) {
			lost := take(t, first, key, longTTL)
			for i := range nodes.Len() {
				_, err := nodes.Do(i, "DEL", key)
				require.NoError(t, err)
			}
			held := take(t, second, key, longTTL)
			requireQuorum(t, nodes, key, held.value)
			before := onMasters(t, nodes, key)

			err := lost.extend(t.Context())
			require.Error(t, err)
			require.Error(t, lost.release(t.Context()))
			if _, is := first.(*lockpipeLocker); is {
				require.ErrorIs(t, err, lockpipe.ErrLost)
			}
			closeOurs(t, first)
			requireKept(t, nodes, key, held.value, before)
			require.NoError(t, held.extend(t.Context()))
			require.NoError(t, held.release(t.Context()))
		})
	})
}

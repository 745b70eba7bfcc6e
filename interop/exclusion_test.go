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

// pair is a meeting of one of our lockers and one of theirs, on a key of its own.
type pair struct {
	name          string
	first, second locker
	key           string
}

// pairs returns each of our lockers as the first and their one as the second, and the other way
// round. Ours are opened for each pair, theirs once.
func pairs(t *testing.T, nodes *lockpipetest.Nodes, their library) []pair {
	t.Helper()
	other := their.open(t, nodes.URLs())
	var all []pair
	for _, our := range ours {
		all = append(all,
			pair{
				name: our.name + ", then " + their.name, first: our.open(t, nodes.URLs()),
				second: other,
			},
			pair{name: their.name + ", then " + our.name, first: other, second: our.open(t,
				nodes.URLs())})
	}
	for i := range all {
		all[i].key = prefix + t.Name() + "/" + all[i].name
	}
	return all
}

// eachPair runs test for each pair, one after another.
func eachPair(t *testing.T, nodes *lockpipetest.Nodes, their library, test func(t *testing.T,
	p pair),
) {
	for _, p := range pairs(t, nodes, their) {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
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
	require.Less(t, 2*len(others), len(values), "%q is not held by %q, but by %q", key, value,
		values)
}

// requireKept fails if a master that had value for key before has another now, or none.
func requireKept(t *testing.T, nodes *lockpipetest.Nodes, key, value string, before []string) {
	t.Helper()
	now := onMasters(t, nodes, key)
	for i := range before {
		require.False(t, before[i] == value && now[i] != value, "master %d: %q, and before %q", i,
			now[i], before[i])
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

// The goal: what the one holds the other is refused, also after an extension; what the one released
// the other gets with its first attempt; and of all that nothing stays on any master.
func TestEachExcludesTheOtherUntilTheRelease(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		eachPair(t, nodes, their, func(t *testing.T, p pair) {
			for _, turn := range [][2]locker{{p.first, p.second}, {p.second, p.first}} {
				held := take(t, turn[0], p.key, longTTL)
				requireTaken(t, turn[1], p.key)
				requireQuorum(t, nodes, p.key, held.value)

				for i := range nodes.Len() { // as if most of the time had passed
					nodes.Do(i, "PEXPIRE", p.key, fmt.Sprint((longTTL / 4).Milliseconds()))
				}
				require.NoError(t, held.extend(t.Context()))
				requireTTL(t, nodes, p.key, longTTL/2)
				requireTaken(t, turn[1], p.key)
				requireQuorum(t, nodes, p.key, held.value)
				require.NoError(t, held.release(t.Context()))
			}
			closeOurs(t, p.first, p.second)
			require.Equal(t, make([]string, nodes.Len()), onMasters(t, nodes, p.key))
		})
	})
}

// closeOurs returns when nothing that lockpipe sent is under way any more. The others have waited
// for all masters with each answer.
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

// The goal: the other gets what the one did not give back, but not before the one's time is over by
// its own account; and the one's late release is refused and does no harm.
func TestEachGetsWhatTheOtherLetExpire(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		late := make(map[string]*lock)
		all := pairs(t, nodes, their)
		for _, p := range all { // all of them first: they expire at the same time
			late[p.key] = take(t, p.first, p.key, shortTTL)
		}
		for _, p := range all {
			t.Run(p.name, func(t *testing.T) {
				held, err := p.second.wait(ctx, p.key, longTTL)
				require.NoError(t, err)
				require.False(t, time.Now().Before(late[p.key].until),
					"it got the lock before the other's time was over")

				before := onMasters(t, nodes, p.key)
				err = late[p.key].release(ctx)
				require.Error(t, err)
				if _, is := p.first.(*lockpipeLocker); is {
					require.ErrorIs(t, err, lockpipe.ErrExpired)
				}
				closeOurs(t, p.first)
				requireKept(t, nodes, p.key, held.value, before)
				require.NoError(t, held.extend(ctx))
				require.NoError(t, held.release(ctx))
			})
		}
	})
}

// The goal: a lock that the masters forgot, and that the other has got since, is neither extended
// nor deleted by the one who had it.
func TestNeitherTouchesWhatTheOtherHasNow(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		eachPair(t, nodes, their, func(t *testing.T, p pair) {
			lost := take(t, p.first, p.key, longTTL)
			for i := range nodes.Len() {
				_, err := nodes.Do(i, "DEL", p.key)
				require.NoError(t, err)
			}
			held := take(t, p.second, p.key, longTTL)
			requireQuorum(t, nodes, p.key, held.value)
			before := onMasters(t, nodes, p.key)

			err := lost.extend(t.Context())
			require.Error(t, err)
			require.Error(t, lost.release(t.Context()))
			if _, is := p.first.(*lockpipeLocker); is {
				require.ErrorIs(t, err, lockpipe.ErrLost)
			}
			closeOurs(t, p.first)
			requireKept(t, nodes, p.key, held.value, before)
			require.NoError(t, held.extend(t.Context()))
			require.NoError(t, held.release(t.Context()))
		})
	})
}

package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// pair is one of our lockers and one of theirs, with a key of its own.
type pair struct {
	name          string
	first, second locker
	key           string
}

// pairs returns pairs of each of our lockers and theirs, in both orders. Ours are opened for each
// pair, theirs once.
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

// onMasters returns the value that each master has for key, "" if it has none.
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

// isValue reports whether a master has the value of a lock. Behind it, lockpipe's values have one
// more character, which says which master it is.
func isValue(found, value string) bool {
	return found == value || len(found) == len(value)+1 && strings.HasPrefix(found, value)
}

// requireQuorum fails unless a majority of the masters has value for key.
func requireQuorum(t *testing.T, nodes *lockpipetest.Nodes, key, value string) {
	t.Helper()
	values := onMasters(t, nodes, key)
	others := slices.DeleteFunc(slices.Clone(values), func(v string) bool {
		return isValue(v, value)
	})
	require.Less(t, 2*len(others), len(values), "%q is not held by %q, but by %q", key, value,
		values)
}

// requireUnchanged fails if a master that had value for key before has another value now, or none.
func requireUnchanged(t *testing.T, nodes *lockpipetest.Nodes, key, value string, before []string) {
	t.Helper()
	now := onMasters(t, nodes, key)
	for i := range before {
		require.False(t, isValue(before[i], value) && now[i] != before[i],
			"master %d: %q, and before %q", i, now[i], before[i])
	}
}

// mustTry calls try for a key that must be free.
func mustTry(t *testing.T, l locker, key string, ttl time.Duration) *lock {
	t.Helper()
	held, err := l.try(t.Context(), key, ttl)
	require.NoError(t, err)
	return held
}

// requireTaken fails unless l is refused because another holder has key.
func requireTaken(t *testing.T, l locker, key string) {
	t.Helper()
	_, err := l.try(t.Context(), key, longTTL)
	require.ErrorIs(t, err, errTaken)
}

// The goal: while one locker holds a key, the other is refused, also after an extension. After a
// release the other gets the key with its first attempt. In the end nothing stays on any master.
func TestExclusion_UntilTheRelease(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		eachPair(t, nodes, their, func(t *testing.T, p pair) {
			for _, order := range [][2]locker{{p.first, p.second}, {p.second, p.first}} {
				held := mustTry(t, order[0], p.key, longTTL)
				requireTaken(t, order[1], p.key)
				requireQuorum(t, nodes, p.key, held.value)

				for i := range nodes.Len() { // as if most of the time had passed
					nodes.Do(i, "PEXPIRE", p.key, fmt.Sprint((longTTL / 4).Milliseconds()))
				}
				require.NoError(t, held.extend(t.Context()))
				requireTTL(t, nodes, p.key, longTTL/2)
				requireTaken(t, order[1], p.key)
				requireQuorum(t, nodes, p.key, held.value)
				require.NoError(t, held.release(t.Context()))
			}
			closeOurs(t, p.first, p.second)
			require.Equal(t, make([]string, nodes.Len()), onMasters(t, nodes, p.key))
		})
	})
}

// closeOurs closes our lockers, so that nothing that lockpipe sent is in flight any more. The other
// libraries wait for all masters in each call.
func closeOurs(t *testing.T, lockers ...locker) {
	t.Helper()
	for _, l := range lockers {
		if l, is := l.(*lockpipeLocker); is {
			l.close(t)
		}
	}
}

// requireTTL fails unless a majority of the masters keeps key for atLeast.
func requireTTL(t *testing.T, nodes *lockpipetest.Nodes, key string, atLeast time.Duration) {
	t.Helper()
	longer := 0
	for i := range nodes.Len() {
		left, err := nodes.Do(i, "PTTL", key)
		require.NoError(t, err)
		if left.(int64) >= atLeast.Milliseconds() {
			longer++
		}
	}
	require.Greater(t, 2*longer, nodes.Len(), "masters that keep the key for %v", atLeast)
}

// The goal: a locker gets a key that the other did not release, but not before the other's lock has
// ended by its own account. The other's late release is refused and changes nothing.
func TestExclusion_UntilExpiry(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		late := make(map[string]*lock)
		all := pairs(t, nodes, their)
		for _, p := range all { // all of them first, so that they expire at the same time
			late[p.key] = mustTry(t, p.first, p.key, shortTTL)
		}
		for _, p := range all {
			t.Run(p.name, func(t *testing.T) {
				held, err := p.second.wait(ctx, p.key, longTTL)
				require.NoError(t, err)
				require.False(t, time.Now().Before(late[p.key].until),
					"it got the lock before the other's lock had ended")

				before := onMasters(t, nodes, p.key)
				err = late[p.key].release(ctx)
				require.Error(t, err)
				if _, is := p.first.(*lockpipeLocker); is {
					require.ErrorIs(t, err, lockpipe.ErrExpired)
				}
				closeOurs(t, p.first)
				requireUnchanged(t, nodes, p.key, held.value, before)
				require.NoError(t, held.extend(ctx))
				require.NoError(t, held.release(ctx))
			})
		}
	})
}

// The goal: if the masters lost a lock and the other locker has got it since, the first holder
// neither extends nor deletes it.
func TestExclusion_LateCallsChangeNothing(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		eachPair(t, nodes, their, func(t *testing.T, p pair) {
			lost := mustTry(t, p.first, p.key, longTTL)
			for i := range nodes.Len() {
				_, err := nodes.Do(i, "DEL", p.key)
				require.NoError(t, err)
			}
			held := mustTry(t, p.second, p.key, longTTL)
			requireQuorum(t, nodes, p.key, held.value)
			before := onMasters(t, nodes, p.key)

			err := lost.extend(t.Context())
			require.Error(t, err)
			require.Error(t, lost.release(t.Context()))
			if _, is := p.first.(*lockpipeLocker); is {
				require.ErrorIs(t, err, lockpipe.ErrLost)
			}
			closeOurs(t, p.first)
			requireUnchanged(t, nodes, p.key, held.value, before)
			require.NoError(t, held.extend(t.Context()))
			require.NoError(t, held.release(t.Context()))
		})
	})
}

package rueidislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/rueidislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: on one node with the same KeyMajority, what one library has locked is taken for the
// other, and free at once after cancel. When both contend, all callers get the lock.
func TestMigration_BothExcludeEachOther(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	for name, majority := range map[string]int32{"one key": 1, "three keys": 2} {
		s := settings{validity: longTTL, majority: majority}
		moved, old := openLockpipe(t, nodes, s), openRueidislock(t, nodes, s)
		defer old.Close()
		for side, sides := range map[string][2]library{
			"new, then old": {moved, old},
			"old, then new": {old, moved},
		} {
			t.Run(name+", "+side, func(t *testing.T) {
				_, cancel, err := sides[0].WithContext(t.Context(), t.Name())
				require.NoError(t, err)
				_, _, err = sides[1].TryWithContext(t.Context(), t.Name())
				require.ErrorIs(t, err, sides[1].notLocked)
				cancel()
				waitUntilFree(t, nodes, t.Name(), int(majority))
				_, cancel, err = sides[1].TryWithContext(t.Context(), t.Name())
				require.NoError(t, err)
				cancel()
			})
		}
		t.Run(name+", in contention", func(t *testing.T) { takeTurns(t, moved, old, moved, old) })
	}
}

// The goal: lockers of this package exclude each other also while their KeyMajority differs.
func TestMigration_KeyMajorityMayDiffer(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	one := openLockpipe(t, nodes, settings{validity: longTTL, majority: 1})
	two := openLockpipe(t, nodes, settings{validity: longTTL, majority: 2})
	for _, sides := range [][2]library{{one, two}, {two, one}} {
		_, cancel, err := sides[0].WithContext(t.Context(), "k")
		require.NoError(t, err)
		_, _, err = sides[1].TryWithContext(t.Context(), "k")
		require.ErrorIs(t, err, rueidislock.ErrNotLocked)
		cancel()
	}
	takeTurns(t, one, two, one, two)
}

// The goal: the cause of the end of a lock's context is lockpipe's, and so are the details of
// errors. An outage is no ErrNotLocked.
func TestErrors_AreOfBothLibraries(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: lockpipe.Config{
			Nodes: nodes.URLs(), NodeTimeout: 200 * time.Millisecond, MaxTTL: longTTL,
		},
		KeyPrefix: "mine", KeyValidity: shortTTL, MaxHold: shortTTL,
	})
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Client().Ready(t.Context()))
	ctx, cancel, err := l.WithContext(t.Context(), "k")
	require.NoError(t, err)
	require.GreaterOrEqual(t, holders(t, nodes, "mine:2:k"), 2, "a quorum has the key")
	_, _, err = l.TryWithContext(t.Context(), "k")
	require.ErrorIs(t, err, rueidislock.ErrNotLocked)
	var held *lockpipe.HeldError
	require.ErrorAs(t, err, &held)
	<-ctx.Done() // after MaxHold
	require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrExpired)
	cancel()

	ctx, cancel, err = l.WithContext(t.Context(), "k")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrReleased)

	require.NoError(t, nodes.Kill(0))
	require.NoError(t, nodes.Kill(1))
	_, _, err = l.TryWithContext(t.Context(), "k")
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.NotErrorIs(t, err, rueidislock.ErrNotLocked)
}

// The goal: NewLocker refuses options that make no sense, with the name of the field, and calls
// refuse a KeyValidity above MaxTTL.
func TestNewLocker_ChecksItsOptions(t *testing.T) {
	_, err := rueidislock.NewLocker(rueidislock.LockerOption{})
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.ErrorContains(t, err, "ClientOption")
	config := lockpipe.Config{Nodes: []string{"127.0.0.1:1"}}
	_, err = rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: config, KeyMajority: 1000,
	})
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.ErrorContains(t, err, "KeyMajority")
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: config, KeyValidity: longTTL,
	})
	require.NoError(t, err)
	defer l.Close()
	_, _, err = l.WithContext(t.Context(), "k")
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.ErrorContains(t, err, "MaxTTL")
}

func ExampleNewLocker() {
	_ = func(ctx context.Context) error {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: lockpipe.Config{ // was: a rueidis.ClientOption
				Nodes: []string{
					"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
				},
			},
			KeyMajority: 1,
		})
		if err != nil {
			return err
		}
		defer locker.Close()

		// What follows is as before.
		ctx, cancel, err := locker.WithContext(ctx, "order:42")
		if err != nil {
			return err
		}
		defer cancel()
		return ctx.Err()
	}
}

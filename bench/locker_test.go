package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/errorkinds"
	"github.com/lockpipe/lockpipe/internal/servertest"
)

// Goal: of many leases that are released together, each has its own end.
func TestEachLocker_ReportsHowEachLeaseEnded(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: 3 * time.Second,
		MaxTTL: time.Minute, NodeTimeout: 3 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	_, err = nodes.Do(0, "SET", "held", "by another")
	require.NoError(t, err)

	each := &eachLocker{client: client}
	grants := each.lock(t.Context(), []string{"kept", "held", "left"})
	require.Len(t, grants, 3)
	require.True(t, grants[0].held)
	require.False(t, grants[1].held)
	require.ErrorIs(t, grants[1].err, lockpipe.ErrHeld)
	require.True(t, grants[2].held)
	require.Equal(t, each.leases[2].Until(), grants[2].until)

	require.NoError(t, each.leases[0].Extend(t.Context(), time.Minute))
	<-each.leases[2].Done()
	each.unlock(t.Context())
	require.NoError(t, grants[0].err)
	require.ErrorIs(t, grants[1].err, lockpipe.ErrHeld, "there was nothing to release")
	require.ErrorIs(t, grants[2].err, lockpipe.ErrExpired)
}

// Goal: an unconfirmed release is tried again until the end of the lease after all extensions.
func TestLocker_UnlockKnowsOfExtensions(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), MaxTTL: time.Minute,
		NodeTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	for _, s := range []Scenario{Single, Each} {
		cfg := DefaultConfig(s)
		cfg.AutoExtend = time.Hour
		caller := newLocker(cfg, client)
		grants := caller.lock(t.Context(), []string{string(s)})
		require.True(t, grants[0].held)
		switch caller := caller.(type) {
		case *wholeLocker:
			require.NoError(t, caller.lease.Extend(t.Context(), time.Minute))
		case *eachLocker:
			require.NoError(t, caller.leases[0].Extend(t.Context(), time.Minute))
		}
		for range 2 {
			caller.unlock(t.Context())
			require.NoError(t, grants[0].err)
			require.Greater(t, time.Until(grants[0].until), 30*time.Second)
		}
	}
}

// Goal: an error about leases that had not ended is found among those of ReleaseAll, at any place.
func TestOtherThanEnded(t *testing.T) {
	expired, lost := fmt.Errorf("a: %w", lockpipe.ErrExpired), fmt.Errorf("b: %w", lockpipe.ErrLost)
	unknown := fmt.Errorf("c: %w", lockpipe.ErrNoQuorum)
	require.NoError(t, errorkinds.OtherThanEnded(nil))
	require.NoError(t, errorkinds.OtherThanEnded(errors.Join(expired, lost)))
	require.Equal(t, unknown, errorkinds.OtherThanEnded(errors.Join(expired, unknown, lost)))
	require.Equal(t, unknown, errorkinds.OtherThanEnded(unknown))
}

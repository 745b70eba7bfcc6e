package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Of many leases that are released together, each has its own end.
func TestEachTellsHowEachLeaseEnded(t *testing.T) {
	nodes := lockpipetest.StartT(t, 1)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: 2 * time.Second,
		MaxTTL: time.Minute, NodeTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	_, err = nodes.Do(0, "SET", "held", "by another")
	require.NoError(t, err)

	each := &eachTaker{client: client}
	grants := each.take(t.Context(), []string{"kept", "held", "left"})
	require.Len(t, grants, 3)
	require.True(t, grants[0].held)
	require.False(t, grants[1].held)
	require.ErrorIs(t, grants[1].err, lockpipe.ErrHeld)
	require.True(t, grants[2].held)
	require.Equal(t, each.leases[2].Until(), grants[2].until)

	require.NoError(t, each.leases[0].Extend(t.Context(), time.Minute))
	<-each.leases[2].Done()
	each.give(t.Context())
	require.NoError(t, grants[0].err)
	require.ErrorIs(t, grants[1].err, lockpipe.ErrHeld, "there was nothing to release")
	require.ErrorIs(t, grants[2].err, lockpipe.ErrExpired)
}

// A release that is not confirmed is asked for again until the end that extensions have given the
// lease.
func TestGiveKnowsOfExtensions(t *testing.T) {
	nodes := lockpipetest.StartT(t, 1)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), MaxTTL: time.Minute,
		NodeTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	for _, s := range []Scenario{Single, Each} {
		cfg := Default(s)
		cfg.AutoExtend = time.Hour
		caller := newTaker(cfg, client)
		grants := caller.take(t.Context(), []string{string(s)})
		require.True(t, grants[0].held)
		switch caller := caller.(type) {
		case *wholeTaker:
			require.NoError(t, caller.lease.Extend(t.Context(), time.Minute))
		case *eachTaker:
			require.NoError(t, caller.leases[0].Extend(t.Context(), time.Minute))
		}
		for range 2 {
			caller.give(t.Context())
			require.NoError(t, grants[0].err)
			require.Greater(t, time.Until(grants[0].until), 30*time.Second)
		}
	}
}

// What ReleaseAll says of leases that were not over is found among its errors, wherever it stands.
func TestUnlessOver(t *testing.T) {
	expired, lost := fmt.Errorf("a: %w", lockpipe.ErrExpired), fmt.Errorf("b: %w", lockpipe.ErrLost)
	unknown := fmt.Errorf("c: %w", lockpipe.ErrNoQuorum)
	require.NoError(t, unlessOver(nil))
	require.NoError(t, unlessOver(errors.Join(expired, lost)))
	require.Equal(t, unknown, unlessOver(errors.Join(expired, unknown, lost)))
	require.Equal(t, unknown, unlessOver(unknown))
}

package kit

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// RefusedConfig wants ErrInvalid with all that is said, and no connection.
func RefusedConfig(t *testing.T, cfg lockpipe.Config, says ...string) {
	t.Helper()
	var dials atomic.Int64
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, net.ErrClosed
	}
	c, err := lockpipe.New(cfg)
	if c != nil {
		defer func() { _ = c.Close(context.Background()) }()
	}
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.Nil(t, c)
	all, without := lockpipe.Inspect(t.Context(), cfg)
	require.ErrorIs(t, without, lockpipe.ErrInvalid)
	require.Equal(t, err.Error(), without.Error(), "without a client")
	require.Nil(t, all)
	for _, s := range says {
		require.ErrorContains(t, err, s)
	}
	require.NotContains(t, err.Error(), "secret")
	require.Zero(t, dials.Load(), "something was dialled")
}

// Huge are durations whose sums and products do not fit into 64 bits.
var Huge = []time.Duration{1 << 60, 1 << 62, math.MaxInt64}

// LongestTTL is the highest Config.MaxTTL.
const LongestTTL = 90 * 24 * time.Hour

// Longest has a client use the longest TTL, MaxTTL and NodeTimeout that there are.
func Longest(cfg *lockpipe.Config) {
	cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = LongestTTL, LongestTTL, LongestTTL
}

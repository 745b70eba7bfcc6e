package multiplex

import (
	"context"
	"errors"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: an attempt waits longer for many keys, and never longer than MaxTTL. That holds for any
// number of keys and any NodeTimeout.
func TestMux_TheTimeoutForManyKeysIsBounded(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		timeout, maxTTL time.Duration
		keys            int
		want            time.Duration
	}{
		{50 * time.Millisecond, time.Minute, 1, 50 * time.Millisecond},
		{50 * time.Millisecond, time.Minute, 1000, 50 * time.Millisecond},
		{50 * time.Millisecond, time.Minute, 1001, 100 * time.Millisecond},
		{50 * time.Millisecond, time.Minute, 1_200_000, time.Minute},
		{50 * time.Millisecond, time.Minute, 1_200_001, time.Minute},
		{90 * day, 90 * day, 1, 90 * day},
		{90 * day, 90 * day, 1_300_000, 90 * day},
		{90 * day, 90 * day, math.MaxInt32, 90 * day},
		{30 * day, 90 * day, 2001, 90 * day},
		{40 * day, 90 * day, 1001, 80 * day},
	} {
		m := start(t, []string{"127.0.0.1:1"}, func(c *Config) {
			c.NodeTimeout, c.MaxTTL = test.timeout, test.maxTTL
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("refused")
			}
		})
		require.Equal(t, test.want, m.timeoutFor(test.keys), "%+v", test)
	}
}

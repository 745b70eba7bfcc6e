package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// huge are durations whose sums and products do not fit into 64 bits.
var huge = []time.Duration{1 << 60, 1 << 62, math.MaxInt64}

// longestTTL is the highest Config.MaxTTL.
const longestTTL = 90 * 24 * time.Hour

// The goal: a TTL, MaxTTL or NodeTimeout with which a sum could overflow is refused. The error
// names the field, the value and the remedy.
func TestHugeTTLsAreRefused(t *testing.T) {
	t.Parallel()
	for _, d := range append([]time.Duration{longestTTL + time.Millisecond}, huge...) {
		value := d.Truncate(time.Millisecond).String()
		tooLong := []string{"Config.MaxTTL is " + value, "at most 2160h", "WithAutoExtend"}
		tests := map[string]struct {
			cfg  lockpipe.Config
			says []string
		}{
			"MaxTTL": {lockpipe.Config{MaxTTL: d}, tooLong},
			"TTL": {lockpipe.Config{TTL: d}, []string{
				"Config.TTL is " + value,
				"lower it",
			}},
			"both": {lockpipe.Config{TTL: d, MaxTTL: d}, tooLong},
			"NodeTimeout": {lockpipe.Config{NodeTimeout: d}, []string{
				"Config.NodeTimeout is",
				"TTL",
			}},
			"all of these": {lockpipe.Config{NodeTimeout: d, TTL: d, MaxTTL: d}, tooLong},
			"a short TTL":  {lockpipe.Config{TTL: time.Second, MaxTTL: d}, tooLong},
			"a short limit": {
				lockpipe.Config{NodeTimeout: time.Second, TTL: d, MaxTTL: d},
				tooLong,
			},
		}
		for name, test := range tests {
			t.Run(name+" "+value, func(t *testing.T) {
				test.cfg.Nodes = []string{"127.0.0.1:1"}
				refusedConfig(t, test.cfg, test.says...)
			})
		}
	}
}

// longest has a client use the longest TTL, MaxTTL and NodeTimeout that there are.
func longest(cfg *lockpipe.Config) {
	cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = longestTTL, longestTTL, longestTTL
}

// The goal: with the longest TTL and NodeTimeout a lease of very many keys is granted, extended and
// released. A longer TTL is refused.
func TestTheLongestTTLIsGranted(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		long := v.client(t, longest)
		for _, d := range huge {
			_, err := long.TryAcquire(t.Context(), "k", lockpipe.WithTTL(d))
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, fmt.Sprintf("WithTTL(%v)", d))
		}
		keys := make([]string, 5000)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		l, err := long.TryAcquireAll(t.Context(), keys)
		require.NoError(t, err)
		require.Greater(t, time.Until(l.Until()), longestTTL*98/100)
		for _, d := range huge {
			err := l.Extend(t.Context(), d)
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, fmt.Sprintf("Extend(%v)", d))
		}
		require.NoError(t, l.Extend(t.Context(), longestTTL))
		_, err = c.TryAcquire(t.Context(), "1")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.NoError(t, l.Release(t.Context()))
		synctest.Wait()
		require.NoError(t, try(t, c, "1").Release(t.Context()))
	})
}

// The goal: a lease with a huge maxHold is extended as often as any other, and lasts, whatever its
// TTL.
func TestAHugeMaxHoldExtendsAsUsual(t *testing.T) {
	for _, d := range huge {
		t.Run(d.String(), func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, v *virtual, c *lockpipe.Client) {
				forever := lockpipe.WithAutoExtend(d)
				short := v.hold(t, c, "short", lockpipe.WithTTL(time.Second), forever)
				long := v.hold(t, v.client(t, longest), "long", forever)
				before := v.executed(0, "EVALSHA")
				time.Sleep(30 * time.Second)
				lasting(t, short)
				lasting(t, long)
				require.LessOrEqual(t, time.Until(short.Until()), time.Second)
				// One after each quarter to half of the second.
				require.InDelta(t, 90, v.executed(0, "EVALSHA")-before, 35)
				require.NoError(t, short.Release(t.Context()))
				require.NoError(t, long.Release(t.Context()))
			})
		})
	}
}

// waiting are the calls that wait for "k", each as one that only returns its error.
var waiting = map[string]func(context.Context, *lockpipe.Client, lockpipe.Option) error{
	"Acquire": func(ctx context.Context, c *lockpipe.Client, o lockpipe.Option) error {
		_, err := c.Acquire(ctx, "k", o)
		return err
	},
	"AcquireAsync": func(ctx context.Context, c *lockpipe.Client, o lockpipe.Option) error {
		ended := make(chan error, 1)
		done := func(_ *lockpipe.Lease, err error) { ended <- err }
		if err := c.AcquireAsync(ctx, []string{"k"}, done, o); err != nil {
			return err
		}
		return <-ended
	},
}

// The goal: a call that wants huge pauses makes them, whether or not the nodes push changes of the
// key, and where no node grants.
func TestAHugeRetryDelayIsWaitedFor(t *testing.T) {
	for _, d := range huge {
		for name, wait := range waiting {
			for _, tells := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/%v", name, d, tells), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						v := newVirtual(t, 1)
						v.nodes[0].tells = tells
						waitsWithPauses(t, v, func(ctx context.Context, c *lockpipe.Client) error {
							return wait(ctx, c, lockpipe.WithRetryDelay(d, d))
						})
					})
				})
			}
		}
	}
}

// waitsWithPauses calls wait for a key that is held, and then where the node refuses to write.
func waitsWithPauses(t *testing.T, v *virtual, wait func(context.Context, *lockpipe.Client) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	tries := 0
	v.watch(func(_ int, command string, args []string) {
		if command == "SET" && len(args) > 0 && args[0] == prefix+"k" {
			tries++
		}
		if tries > 1000 { // without a pause no time passes
			cancel(errors.New("the call does not pause"))
		}
	})
	// The caller tries each time when the extension that it last heard of would end.
	hold := []lockpipe.Option{lockpipe.WithTTL(time.Second), lockpipe.WithAutoExtend(time.Hour)}
	v.hold(t, v.client(t), "k", hold...)
	c := v.client(t)
	limited, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	err := wait(limited, c)
	require.NoError(t, context.Cause(ctx))
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, tries, 100)

	v.fail(0, readOnly)
	before := c.Stats().Attempts
	limited, stop = context.WithTimeout(ctx, time.Second)
	defer stop()
	err = wait(limited, c)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 1, c.Stats().Attempts-before)
}

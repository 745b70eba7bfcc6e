package calls

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: the longest possible delay between two attempts does not make the sum overflow, and the
// wait still ends with its ctx.
func TestRetryDelay_AHugeOneWaitsInsteadOfPanicking(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 1, func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client) {
		kit.Try(t, c, "k")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var err error
		require.NotPanics(t, func() {
			_, err = c.Acquire(ctx, "k", lockpipe.WithRetryDelay(0,
				1<<63-1))
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
	})
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
func TestRetryDelay_AHugeOneIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, d := range kit.Huge {
		for name, wait := range waiting {
			for _, tells := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/%v", name, d, tells), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						v := kit.NewFakeNodes(t, 1)
						v.Nodes[0].Tells = tells
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
func waitsWithPauses(t *testing.T, v *kit.FakeNodes, wait func(context.Context,
	*lockpipe.Client) error,
) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	var tries atomic.Int64
	v.Watch(func(_ int, command string, args []string) {
		if command == "SET" && len(args) > 0 && args[0] == kit.Prefix+"k" {
			tries.Add(1)
		}
		if tries.Load() > 1000 { // without a pause no time passes
			cancel(errors.New("the call does not pause"))
		}
	})
	// The caller tries each time when the extension that it last heard of would end.
	hold := []lockpipe.Option{lockpipe.WithTTL(time.Second), lockpipe.WithAutoExtend(time.Hour)}
	v.Hold(t, v.Client(t), "k", hold...)
	c := v.Client(t)
	limited, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	err := wait(limited, c)
	require.NoError(t, context.Cause(ctx))
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, tries.Load(), int64(100))

	v.Fail(0, kit.ReadOnly)
	before := c.Stats().Attempts
	limited, stop = context.WithTimeout(ctx, time.Second)
	defer stop()
	err = wait(limited, c)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 1, c.Stats().Attempts-before)
}

package lockpipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: a call that waited for a held key says so, even if ctx ended during an attempt that no
// node answered.
func TestWait_TheErrorHasTheLastDecidedReason(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		err := abortedInTheSecondAttempt(t, v, c)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	})
}

// The goal: the error of ctx is found too if it ended the last attempt that was allowed.
func TestWait_TheErrorOfTheLastAttemptHasTheEndOfCtx(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		err := abortedInTheSecondAttempt(t, v, c, lockpipe.WithMaxAttempts(2))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	})
}

// abortedInTheSecondAttempt returns the error of an Acquire whose first attempt was refused, and
// whose ctx ended when the second one was with every node.
func abortedInTheSecondAttempt(t *testing.T, v *virtual, c *lockpipe.Client,
	opts ...lockpipe.Option,
) error {
	t.Helper()
	v.hold(t, c, "k")
	before := v.executedOnAll("SET")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := later(func() error {
		_, err := c.Acquire(ctx, "k", append(opts, lockpipe.WithRetryDelay(time.Second,
			time.Second))...)
		return err
	})
	synctest.Wait()
	require.GreaterOrEqual(t, v.executedOnAll("SET"), before+2,
		"a quorum refuses the first attempt")
	v.silence(0, 1, 2)
	time.Sleep(time.Second)
	synctest.Wait()
	for i := range v.nodes {
		require.Equal(t, 1, v.hanging(i), "the second attempt")
	}
	cancel()
	return receive(t, ended, "Acquire does not return")
}

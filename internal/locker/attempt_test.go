package locker

import (
	"context"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

// The goal: a call whose ctx has ended gets no lease, although a quorum granted it, and the keys
// are released.
func TestFinish_GivesNoLeaseBehindTheEndOfCtx(t *testing.T) {
	t.Parallel()
	k := newLocker(t, servertest.Start(t, 3).URLs(), awake, nil)
	ctx, cancel := context.WithCancel(t.Context())
	o := &Options{TTL: ttl}
	a := k.Acquire([]string{"x"}, o, new(FenceRetry), false, 1)
	votes := a.of.Wait(ctx, time.Time{})
	require.Equal(t, multiplex.Won, votes.Result)
	cancel()
	l, f := k.Finish(ctx, &a, o, votes)
	require.Nil(t, l)
	require.True(t, f.CutShort(ctx))
	l, f = k.Try(t.Context(), []string{"x"}, o) // its acquire is behind the release
	require.Nil(t, f)
	require.NoError(t, l.Release(t.Context()))
}

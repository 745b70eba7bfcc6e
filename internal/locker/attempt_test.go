package locker

import (
	"context"
	"testing"

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
	var a attempt
	k.acquire(&a, []string{"x"}, o, 1)
	require.Equal(t, multiplex.Won, a.of.Wait(ctx).Result)
	cancel()
	l, f := k.finish(ctx, &a, o)
	require.Nil(t, l)
	require.True(t, f.CutShort(ctx))
	l, f = k.Try(t.Context(), []string{"x"}, o) // its acquire is behind the release
	require.Nil(t, f)
	require.NoError(t, l.Release(t.Context()))
}

package calls

import (
	"context"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/stretchr/testify/require"
)

// The goal: the number of outstanding calls is bounded. A call that has ended counts until its
// function begins. Room that becomes free is used.
func TestAsync_OutstandingCallsAreBounded(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	const room, functions = 100, 64 // that run at a time
	c.asyncs.Add(locker.MaxPending - room)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	block, ended := make(chan struct{}), make(chan *locker.Failure, room+functions)
	start := func(ctx context.Context) *locker.Failure {
		return c.AcquireAsync(ctx, []string{"k"}, options(),
			func(_ *locker.Lease, f *locker.Failure) {
				<-block
				ended <- f
			})
	}
	for range room {
		require.Nil(t, start(ctx))
	}
	require.ErrorIs(t, start(ctx).End, locker.Overloaded().End)
	cancel()
	require.Eventually(t, func() bool {
		return c.asyncs.Load() == locker.MaxPending-functions
	}, 20*time.Second, time.Millisecond)
	others, end := context.WithCancel(t.Context())
	defer end()
	for range functions {
		require.Nil(t, start(others))
	}
	require.ErrorIs(t, start(others).End, locker.Overloaded().End)
	end()
	close(block)
	for range room + functions {
		require.NotNil(t, <-ended, "nothing was granted")
	}
	require.Equal(t, int64(locker.MaxPending-room), c.asyncs.Load())
}

package lockpipe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/stretchr/testify/require"
)

// The goal: after the process was stopped, the context of Do reports the loss at the first call of
// Err, although neither the timer of the lease nor the goroutine that passes its end on has run.
func TestDo_ItsContextAsksTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Lease{client: new(Client)}
		leases := lease.NewManager(lease.Config{
			OnEnd:           func(error, time.Duration) {},
			OnUnexpectedEnd: func(any, error) {},
		})
		require.NoError(t, leases.Hold(&l.term, l, lease.Grant{Sent: time.Now(), TTL: time.Second}))
		inner, cancel := context.WithCancelCause(t.Context())
		held := &leaseBoundContext{inner, l, cancel}
		require.NoError(t, held.Err())
		time.Sleep(time.Second)
		require.ErrorIs(t, held.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(held), ErrExpired)
		time.Sleep(time.Second)
	})
}

package lockpipe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/stretchr/testify/require"
)

// The goal: after a stop of the process, the context of Do tells the loss at the first look,
// although neither the timer of the lease nor what hands its end on has run.
func TestTheContextOfDoAsksTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(Lease)
		leases := lease.NewManager(lease.Config{
			Over:  func(error, time.Duration) {},
			Ended: func(any, error) {},
		})
		require.NoError(t, leases.Hold(&l.term, l, lease.Grant{Sent: time.Now(), TTL: time.Second}))
		inner, cancel := context.WithCancelCause(t.Context())
		held := &heldContext{inner, l, cancel}
		require.NoError(t, held.Err())
		time.Sleep(time.Second)
		require.ErrorIs(t, held.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(held), ErrExpired)
		time.Sleep(time.Second)
	})
}

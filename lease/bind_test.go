package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: after the process was stopped, a bound context reports the loss at the first call of
// Err, although neither the timer of the lease nor the goroutine that passes its end on has run.
func TestBind_AsksTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager(t)
		term := hold(t, m, "k", time.Second, never)
		inner, cancel := context.WithCancelCause(t.Context())
		held := &clockContext{inner, term, cancel}
		require.NoError(t, held.Err())
		time.Sleep(time.Second)
		require.ErrorIs(t, held.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(held), ErrExpired)
		time.Sleep(time.Second)
	})
}

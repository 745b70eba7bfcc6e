package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// keep is BeginKeep, with an answer at once.
func keep(t *testing.T, term *Term, answer error) error {
	t.Helper()
	e, err := term.BeginKeep(t.Context(), time.Hour)
	require.NoError(t, err)
	e.Sent, e.Err = time.Now(), answer
	return e.Finish()
}

// The goal: a confirmed Keep ends the term with ErrKept. The manager reports that as the holder's
// own end, once, and Close does not return the term.
func TestKeep_EndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, maxHold := range []time.Duration{never, 30 * time.Second} {
			m, s := manager(t)
			term := hold(t, m, "k", usualTTL, maxHold)
			ctx := term.Context()
			pass(time.Second)
			require.NoError(t, keep(t, term, nil))
			require.Equal(t, ErrKept, term.Err())
			require.Equal(t, ErrKept, context.Cause(ctx))
			require.Zero(t, term.Until())
			require.Equal(t, ErrKept, term.End(ErrReleased))
			require.Equal(t, ErrKept, extend(t, term, time.Hour))
			_, err := term.BeginKeep(t.Context(), time.Hour)
			require.Equal(t, ErrKept, err)
			require.False(t, handOff(term))
			pass(time.Minute)
			require.Empty(t, m.Close())
			require.Empty(t, s.reported())
			require.Empty(t, s.tried(), "extended automatically")
			require.Equal(t, []time.Duration{time.Second}, s.held)
		}
	})
}

// The goal: while Keep is under way, no other extension begins, nor a handoff. The caller of an
// extension that waits for it finds the term over.
func TestKeep_IsAloneOnTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		term := hold(t, m, "k", usualTTL, time.Hour)
		e, err := term.BeginKeep(t.Context(), time.Hour)
		require.NoError(t, err)
		e.Sent = time.Now()
		extended := make(chan error, 1)
		go func() { extended <- extend(t, term, time.Hour) }()
		pass(usualTTL - time.Second)
		require.Empty(t, s.tried())
		require.False(t, handOff(term))
		require.NoError(t, e.Finish())
		require.Equal(t, ErrKept, <-extended)
		require.Equal(t, ErrKept, term.Err())
	})
}

// The goal: a Keep that was not confirmed changes nothing of the term, also not its automatic
// extension. A term that ended before the confirmation is not kept.
func TestKeep_ThatFailedLeavesTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		plain, auto := hold(t, m, "plain", usualTTL, never), hold(t, m, "auto", usualTTL, time.Hour)
		until := plain.Until()
		require.Equal(t, errNodes, keep(t, plain, errNodes))
		require.Equal(t, errNodes, keep(t, auto, errNodes))
		require.Equal(t, until, plain.Until())
		pass(time.Minute)
		require.Equal(t, ErrExpired, plain.Err())
		require.NoError(t, auto.Err())
		for _, try := range s.tried() {
			require.Equal(t, usualTTL, try.ttl)
		}
		require.ErrorIs(t, keep(t, auto, ErrLost), ErrLost)
		require.ErrorIs(t, auto.Err(), ErrLost)

		late := hold(t, m, "late", usualTTL, never)
		e, err := late.BeginKeep(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Equal(t, late.Until(), e.SendBefore)
		e.Sent = time.Now()
		pass(usualTTL)
		require.Equal(t, ErrExpired, e.Finish())
		require.Equal(t, ErrExpired, late.Err())
	})
}

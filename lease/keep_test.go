package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: Keep ends the term with ErrKept. The manager reports that as the holder's own end,
// once, and Close does not return the term.
func TestKeep_EndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, maxHold := range []time.Duration{never, 30 * time.Second} {
			m, s := manager(t)
			term := hold(t, m, "k", usualTTL, maxHold)
			ctx := term.Context()
			pass(time.Second)
			require.Equal(t, ErrKept, term.End(ErrKept))
			require.Equal(t, ErrKept, term.Err())
			require.Equal(t, ErrKept, context.Cause(ctx))
			require.Zero(t, untilTime(term))
			require.Equal(t, ErrKept, term.End(ErrReleased))
			require.Equal(t, ErrKept, extend(t, term, time.Hour))
			require.False(t, handOff(term))
			pass(time.Minute)
			require.Empty(t, m.Close())
			require.Empty(t, s.reported())
			require.Empty(t, s.tried(), "extended automatically")
			require.Equal(t, []time.Duration{time.Second}, s.held)
		}
	})
}

// The goal: Keep does not wait for an extension that is under way, and the answer to that brings
// the term not back.
func TestKeep_EndsTheTermDuringAnExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager(t)
		term := hold(t, m, "k", usualTTL, time.Hour)
		e, err := term.BeginExtension(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Equal(t, ErrKept, term.End(ErrKept))
		require.Equal(t, ErrKept, e.Finish())
		require.Equal(t, ErrKept, term.Err())
	})
}

// The goal: a term that has ended otherwise stays so.
func TestKeep_OfATermThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		term, released := hold(t, m, "late", usualTTL, never), hold(t, m, "k", usualTTL, never)
		_ = released.End(ErrReleased)
		require.Equal(t, ErrReleased, released.End(ErrKept))
		pass(usualTTL)
		require.Equal(t, ErrExpired, why(term.End(ErrKept)))
		require.Equal(t, ErrExpired, why(term.Err()))
		require.Len(t, s.reported(), 1)
	})
}

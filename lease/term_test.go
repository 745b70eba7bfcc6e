package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// hold begins a term of d.
func hold(t *testing.T, m *Manager, d time.Duration) *Term {
	t.Helper()
	term := new(Term)
	require.NoError(t, m.Hold(term, term, time.Now().Add(d)))
	return term
}

// pass lets time pass, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func manager() (m *Manager, expired *[]any) {
	expired = new([]any)
	var mu sync.Mutex
	return NewManager(func(owner any) {
		mu.Lock()
		defer mu.Unlock()
		*expired = append(*expired, owner)
	}), expired
}

// The goal: the context ends exactly at the deadline, by the local clock, and everything agrees then.
func TestTheTermEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager()
		term := hold(t, m, time.Minute)
		until := term.Until()
		require.Equal(t, time.Minute, time.Until(until))
		<-term.Context().Done()
		require.Equal(t, until, time.Now())
		require.Equal(t, ErrExpired, context.Cause(term.Context()))
		require.Equal(t, ErrExpired, term.Err())
		require.Zero(t, term.Until())
		time.Sleep(time.Second)
	})
}

// The goal: each term ends once, by what came first.
func TestTheFirstEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager()
		released, expired := hold(t, m, time.Minute), hold(t, m, time.Second)
		ctx := released.Context()
		require.Equal(t, ErrReleased, released.End(ErrReleased))
		require.Equal(t, ErrReleased, released.End(ErrLost))
		require.Equal(t, ErrReleased, context.Cause(ctx))
		require.Equal(t, ErrReleased, released.Extend(time.Now().Add(time.Hour)))
		time.Sleep(time.Second)
		require.Equal(t, ErrExpired, expired.End(ErrReleased))
		require.Equal(t, ErrExpired, expired.Extend(time.Now().Add(time.Hour)), "nothing brings it back")
		require.Equal(t, ErrExpired, context.Cause(expired.Context()), "a context that is asked for later has ended, too")
		m.Forget(released)
		time.Sleep(time.Second)
	})
}

// The goal: after a stop of the process, the first look tells the loss, although no timer has run.
func TestTheClockIsAskedBeforeAnyTimerHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager()
		term := hold(t, m, time.Minute)
		ctx := term.Context()
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		term.timer.Stop() // as if the process had been stopped: time passes, timers do not run
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.Equal(t, ErrExpired, context.Cause(ctx))
		require.Error(t, child.Err())
		require.Equal(t, ErrExpired, context.Cause(child))
	})
}

// The goal: an extension moves the deadline of the context, later and earlier; a shortening counts before it is confirmed.
func TestExtensionsMoveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, expired := manager()
		start := time.Now()
		term := hold(t, m, time.Minute)
		ctx := term.Context()
		require.NoError(t, term.Extend(start.Add(2*time.Minute)))
		time.Sleep(90 * time.Second)
		require.NoError(t, ctx.Err())
		m.Shorten(term, start.Add(100*time.Second))
		m.Shorten(term, start.Add(time.Hour)) // changes nothing
		<-ctx.Done()
		require.Equal(t, 100*time.Second, time.Since(start))
		pass(2 * tick)
		require.Equal(t, []any{term}, *expired, "the manager knows of the earlier end")
	})
}

// The goal: the manager tells of each term that ran out, once, also if it was extended over many turns of the wheel, and then knows no
// more and keeps no timer.
func TestTheManagerForgetsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, expired := manager()
		short, long, released := hold(t, m, time.Second), hold(t, m, time.Hour), hold(t, m, time.Minute)
		require.NoError(t, short.Extend(time.Now().Add(2*time.Minute)))
		released.End(ErrReleased)
		m.Forget(released)
		m.Forget(released)
		pass(time.Minute)
		require.Empty(t, *expired)
		pass(time.Minute + tick*2)
		require.Equal(t, []any{short}, *expired)
		pass(time.Hour)
		require.Equal(t, []any{short, long}, *expired)
		require.Zero(t, m.count)
		require.False(t, m.timer.Stop(), "no timer runs while nothing is held")
		again := hold(t, m, time.Second)
		pass(2 * time.Second)
		require.Equal(t, []any{short, long, again}, *expired)
	})
}

// The goal: Close ends what lasts, and what comes later does not begin.
func TestCloseEndsEveryTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager()
		first, over, second := hold(t, m, time.Minute), hold(t, m, time.Minute), hold(t, m, time.Hour)
		over.End(ErrReleased)
		ctx := first.Context()
		require.ElementsMatch(t, []any{first, second}, m.Close())
		require.Equal(t, ErrClosed, context.Cause(ctx))
		require.Equal(t, ErrClosed, second.Err())
		require.Equal(t, ErrReleased, over.Err())
		late := new(Term)
		require.Equal(t, ErrClosed, m.Hold(late, late, time.Now().Add(time.Minute)))
		require.Equal(t, ErrClosed, late.Err())
		require.Equal(t, ErrExpired, m.Hold(new(Term), nil, time.Now()))
		require.Empty(t, m.Close())
	})
}

// The goal: many terms of all lengths, extended and released at random, each end by the right cause at the right time.
func TestManyTermsEndWhenTheyShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, expired := manager()
		var released, lasting int
		for i := range 5000 {
			term := hold(t, m, time.Duration(i%997+1)*time.Second/10)
			switch {
			case i%3 == 0:
				term.End(ErrReleased)
				m.Forget(term)
				released++
			case i%7 == 0:
				require.NoError(t, term.Extend(time.Now().Add(24*time.Hour)))
				lasting++
			}
		}
		pass(100*time.Second + 2*tick)
		require.Len(t, *expired, 5000-released-lasting)
		require.Equal(t, lasting, m.count)
		require.Len(t, m.Close(), lasting)
	})
}

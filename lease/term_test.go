package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: for each term that began, OnEnd gets once for how long it was held: until it ended, for
// whatever reason, and not until the manager noticed.
func TestTerm_HowLongItWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		released, passed := hold(t, m, "released", time.Minute, never), hold(t, m, "passed",
			time.Minute, never)
		hold(t, m, "expired", 10*time.Second, never)
		lost := hold(t, m, "lost", time.Minute, never)
		hold(t, m, "closed", time.Minute, never)
		held := func() []time.Duration {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.held
		}
		time.Sleep(time.Second)
		_ = released.End(ErrReleased)
		_ = released.End(ErrReleased)
		time.Sleep(time.Second)
		require.True(t, handOff(passed))
		require.False(t, handOff(passed))
		time.Sleep(time.Second)
		_ = lost.End(ErrLost)
		time.Sleep(20 * time.Second)
		m.Close()
		require.Equal(t, []time.Duration{
			time.Second, 2 * time.Second, 3 * time.Second,
			Validity(10 * time.Second), 23 * time.Second,
		}, held())
		require.Equal(t, ErrClosed, m.Hold(new(Term), "late", Grant{
			Sent: m.clock.Now(),
			TTL:  time.Minute,
		}))
		require.Len(t, held(), 5, "one that did not begin")
	})
}

// The goal: the context ends exactly at the deadline, by the local clock, and all methods
// agree then.
func TestTerm_EndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		start := time.Now()
		term := hold(t, m, "k", usualTTL, never)
		until := untilTime(term)
		require.Equal(t, start.Add(Validity(usualTTL)), until)
		<-term.Context().Done()
		require.Equal(t, until, time.Now())
		require.Equal(t, ErrExpired, why(context.Cause(term.Context())))
		require.Equal(t, ErrExpired, why(term.Err()))
		require.Zero(t, untilTime(term))
		synctest.Wait()
		require.Equal(t, []string{"k: lockpipe: lease expired"}, s.reported(),
			"told at the deadline, not at some later tick")
		require.Equal(t, until, time.Now())
	})
}

// The goal: each term ends once, with the first cause, and OnUnexpectedEnd is called only for ends
// that the holder did not cause.
func TestTerm_TheFirstEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		released, expired := hold(t, m, "released", time.Minute, never), hold(t, m, "expired",
			time.Second, never)
		ctx := released.Context()
		require.Equal(t, ErrReleased, released.End(ErrReleased))
		require.Equal(t, ErrReleased, released.End(ErrLost))
		require.Equal(t, ErrReleased, context.Cause(ctx))
		require.Equal(t, ErrReleased, extend(t, released, time.Hour))
		pass(time.Second)
		require.Equal(t, ErrExpired, why(expired.End(ErrReleased)))
		require.Equal(t, ErrExpired, why(extend(t, expired, time.Hour)), "nothing brings it back")
		require.Equal(t, ErrExpired, why(context.Cause(expired.Context())),
			"a context that is asked for later has ended, too")
		pass(time.Hour)
		require.Equal(t, []string{"expired: lockpipe: lease expired"}, s.reported())
	})
}

// The goal: an end that the holder did not cause says which lease it was, and when it ended,
// however late it is asked for. The holder's own end is bare.
func TestTerm_ItsEndNamesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager(t)
		term, released := hold(t, m, "k", time.Second, never), hold(t, m, "r", time.Second, never)
		auto := hold(t, m, "auto", time.Second, time.Second/2)
		require.Equal(t, ErrReleased, released.End(ErrReleased))
		at := time.Now().Add(Validity(time.Second)).Format(time.RFC3339)
		m.timer.Stop() // as if the process had been stopped
		time.Sleep(time.Minute)
		require.EqualError(t, term.Err(), "lockpipe: k, at "+at+": lease expired")
		require.ErrorIs(t, term.Err(), ErrExpired)
		require.EqualError(t, context.Cause(term.Context()), term.Err().Error())
		require.EqualError(t, auto.Err(),
			"lockpipe: auto, at "+at+": lease expired: it was held for maxHold")
		require.ErrorIs(t, auto.Err(), ErrExpired)
	})
}

// The goal: an end that a method of the term finds before the manager does is reported, and once.
func TestTerm_TheEndIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		term := hold(t, m, "k", time.Second, never)
		time.Sleep(Validity(time.Second))
		require.Equal(t, ErrExpired, why(term.Err()))
		require.Equal(t, ErrExpired, why(term.End(ErrReleased)))
		require.Equal(t, ErrExpired, why(term.End(ErrReleased)))
		pass(time.Minute)
		require.Equal(t, []string{"k: lockpipe: lease expired"}, s.reported())

		lost := hold(t, m, "l", time.Second, never)
		e, err := lost.BeginExtension(t.Context(), time.Second)
		require.NoError(t, err)
		e.Err = ErrLost
		require.Equal(t, ErrLost, e.Finish())
		require.Equal(t, ErrLost, lost.End(ErrReleased))
		pass(time.Minute)
		require.Equal(t, []string{"k: lockpipe: lease expired", "l: lockpipe: lease was lost"},
			s.reported())
	})
}

// The goal: after the process was stopped, the first call of a method reports the loss, although no
// timer has run.
func TestTerm_ReadsTheClockBeforeAnyTimerHasRun(t *testing.T) {
	for name, maxHold := range map[string]time.Duration{"expired": never, "lost": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := manager(t)
				term := hold(t, m, "k", time.Minute, maxHold)
				ctx := term.Context()
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				m.timer.Stop() // as if the process had been stopped: time passes, timers do not run
				time.Sleep(2 * time.Minute)
				want := ErrExpired
				if maxHold != never {
					want = errUnextended
				}
				require.Zero(t, untilTime(term))
				require.ErrorIs(t, ctx.Err(), context.Canceled)
				require.Equal(t, want, why(context.Cause(ctx)))
				require.Error(t, child.Err())
				require.Equal(t, want, why(context.Cause(child)))
			})
		})
	}
}

// The goal: an extension that was under way while the process was stopped beyond the deadline does
// not bring the lease back.
func TestExtension_AConfirmationThatComesTooLateCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager(t)
		term := hold(t, m, "k", usualTTL, time.Hour)
		e, err := term.BeginExtension(t.Context(), usualTTL)
		require.NoError(t, err)
		m.timer.Stop()
		time.Sleep(Validity(usualTTL))
		require.ErrorIs(t, e.Finish(), ErrLost)
		require.Zero(t, untilTime(term))
		require.ErrorIs(t, term.Err(), ErrLost)
	})
}

// The goal: an extension moves the deadline of the context, later and earlier; a shortening counts
// before it is confirmed.
func TestExtension_MovesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		start := time.Now()
		term := hold(t, m, "k", time.Minute, never)
		ctx := term.Context()
		require.NoError(t, extend(t, term, 2*time.Minute))
		time.Sleep(90 * time.Second)
		require.NoError(t, ctx.Err())
		e, err := term.BeginExtension(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, start.Add(90*time.Second+Validity(10*time.Second)), untilTime(term),
			"before it is sent")
		require.Equal(t, untilTime(term), e.SendBefore)
		e.Err = errNodes
		require.Equal(t, errNodes, e.Finish())
		e, err = term.BeginExtension(t.Context(), time.Hour)
		require.NoError(t, err)
		e.Err = errNodes
		require.Equal(t, errNodes, e.Finish())
		<-ctx.Done()
		require.Equal(t, 90*time.Second+Validity(10*time.Second), time.Since(start),
			"what was not confirmed moves nothing")
		synctest.Wait()
		require.Equal(t, []string{"k: lockpipe: lease expired"}, s.reported())
	})
}

// The goal: an extension may be sent only while the lease certainly lasts: until the end that it
// has, or the earlier one that is asked for.
func TestExtension_IsSentBeforeTheEarlierEnd(t *testing.T) {
	ttls := []time.Duration{time.Second, usualTTL, time.Minute, 2 * time.Minute, time.Hour}
	for _, maxHold := range []time.Duration{never, 5 * time.Minute} {
		for _, ttl := range ttls {
			synctest.Test(t, func(t *testing.T) {
				m, _ := manager(t)
				start := time.Now()
				term := hold(t, m, "k", time.Minute, maxHold)
				time.Sleep(usualTTL)
				e, err := term.BeginExtension(t.Context(), ttl)
				require.NoError(t, err)
				earlier := min(Validity(time.Minute), usualTTL+Validity(ttl))
				require.Equal(t, start.Add(earlier), e.SendBefore, "%v", ttl)
				require.Equal(t, e.SendBefore, untilTime(term))
			})
		}
	}
}

// The goal: extensions of one lease take turns. One that waits ends with ctx, or with the end of
// the lease.
func TestExtension_OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := manager(t)
		term := hold(t, m, "k", time.Minute, never)
		first, err := term.BeginExtension(t.Context(), time.Minute)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = term.BeginExtension(ctx, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begun := make(chan error, 2)
		for range 2 {
			go func() {
				second, err := term.BeginExtension(t.Context(), time.Minute)
				begun <- err
				if err == nil {
					time.Sleep(time.Second)
					_ = second.Finish()
				}
			}()
		}
		pass(time.Second)
		require.Empty(t, begun)
		require.NoError(t, first.Finish())
		synctest.Wait()
		require.Len(t, begun, 1)
		pass(time.Second)
		require.Len(t, begun, 2)
		last, err := term.BeginExtension(t.Context(), time.Minute)
		require.NoError(t, err)
		go func() {
			_, err := term.BeginExtension(t.Context(), time.Minute)
			begun <- err
		}()
		synctest.Wait()
		require.Equal(t, ErrReleased, term.End(ErrReleased))
		synctest.Wait()
		require.NoError(t, <-begun)
		require.NoError(t, <-begun)
		require.Equal(t, ErrReleased, <-begun)
		require.Equal(t, ErrReleased, last.Finish())
	})
}

// The goal: a TTL for a validity is never valid for less, and hardly for longer.
func TestValidity_TheTTLForIt(t *testing.T) {
	for _, d := range []time.Duration{
		1, time.Millisecond, 7900 * time.Microsecond,
		99 * time.Millisecond, time.Second, 9898 * time.Millisecond, time.Hour, maxHoldLimit,
	} {
		ttl := TTLFor(d)
		require.Zero(t, ttl%time.Millisecond)
		require.GreaterOrEqual(t, Validity(ttl), d)
		require.Less(t, Validity(ttl-2*time.Millisecond), d)
	}
}

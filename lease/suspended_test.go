package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// machine can be suspended: the keys on the nodes grow older then, and no timer runs.
type machine struct{ suspended atomic.Int64 }

func (m *machine) suspend(d time.Duration) { m.suspended.Add(int64(d)) }

// on has a manager run on the machine.
func (m *machine) on(cfg *Config) {
	cfg.Clock = NewClock(func(time.Time) time.Duration {
		return time.Duration(m.suspended.Load())
	})
}

// onAMachine runs a test in a bubble. The machine was suspended before, by more than any lease
// lasts.
func onAMachine(t *testing.T, test func(t *testing.T, box *machine, m *Manager, s *masters)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		box := new(machine)
		m, s := manager(t, box.on)
		box.suspend(time.Hour)
		test(t, box, m, s)
	})
}

// The goal: after a suspension that used up the validity, the first call of any method finds the
// lease over, before any timer has fired.
func TestSuspension_TheFirstCheckFindsTheEnd(t *testing.T) {
	looks := map[string]func(t *testing.T, term *Term, ctx context.Context){
		"Err": func(t *testing.T, term *Term, _ context.Context) {
			require.Error(t, term.Err())
		},
		"Until": func(t *testing.T, term *Term, _ context.Context) {
			require.Zero(t, untilTime(term))
		},
		"Context.Err": func(t *testing.T, _ *Term, ctx context.Context) {
			require.Error(t, ctx.Err())
		},
		"Begin": func(t *testing.T, term *Term, _ context.Context) {
			_, err := term.BeginExtension(t.Context(), usualTTL)
			require.Error(t, err)
		},
		"End": func(t *testing.T, term *Term, _ context.Context) {
			require.NotErrorIs(t, term.End(ErrReleased), ErrReleased)
		},
		"HandOff": func(t *testing.T, term *Term, _ context.Context) {
			require.False(t, handOff(term))
		},
		"due": func(t *testing.T, term *Term, _ context.Context) {
			_, ok := term.startAuto(term.manager.clock.Now())
			require.False(t, ok)
		},
	}
	for name, look := range looks {
		for maxHold, want := range map[time.Duration]error{never: ErrExpired, time.Hour: ErrLost} {
			t.Run(name+" "+want.Error(), func(t *testing.T) {
				onAMachine(t, func(t *testing.T, box *machine, m *Manager, _ *masters) {
					term := hold(t, m, "k", usualTTL, maxHold)
					ctx, other := term.Context(), hold(t, m, "other", usualTTL, maxHold)
					const awake = time.Second + time.Millisecond
					time.Sleep(awake)
					start := time.Now()
					box.suspend(Validity(usualTTL) - awake)
					look(t, term, ctx)
					<-other.Context().Done() // which nobody has asked for before
					require.Equal(t, start, time.Now())
					require.ErrorIs(t, term.Err(), want)
					require.ErrorIs(t, context.Cause(ctx), want)
				})
			})
		}
	}
}

// The goal: a suspension brings the end nearer by as much as it took, and does no more.
func TestSuspension_AShortOneBringsTheEndNearer(t *testing.T) {
	onAMachine(t, func(t *testing.T, box *machine, m *Manager, _ *masters) {
		start := time.Now()
		term := hold(t, m, "k", usualTTL, never)
		require.Equal(t, start.Add(Validity(usualTTL)), untilTime(term))
		for i := range 3 {
			box.suspend(2 * time.Second)
			require.NoError(t, term.Err())
			left := Validity(usualTTL) - time.Duration(i+1)*2*time.Second
			require.Equal(t, start.Add(left), untilTime(term))
			require.Equal(t, -left, m.clock.Since(term.Until()))
		}
		<-term.Context().Done()
		require.Equal(t, Validity(usualTTL)-6*time.Second, time.Since(start))
		require.Equal(t, ErrExpired, why(term.Err()))
	})
}

// The goal: a holder that only waits for its context is notified soon after a suspension, however
// far away the timers of all leases were, and so is one whose lease begins right after it.
func TestSuspension_EndsContextsSoon(t *testing.T) {
	onAMachine(t, func(t *testing.T, box *machine, m *Manager, s *masters) {
		over := hold(t, m, "over", 10*time.Second, never).Context()
		still := hold(t, m, "still", time.Minute, never)
		time.Sleep(time.Second + time.Millisecond) // while the manager has nothing to do
		start := time.Now()
		box.suspend(20 * time.Second)
		short := hold(t, m, "short", 30*time.Millisecond, never).Context()
		<-over.Done()
		require.LessOrEqual(t, time.Since(start), suspensionCheck)
		require.Equal(t, ErrExpired, why(context.Cause(over)))
		<-short.Done()
		require.Equal(t, Validity(30*time.Millisecond), time.Since(start))
		require.NoError(t, still.Err())
		synctest.Wait()
		require.ElementsMatch(t, []string{
			"over: lockpipe: lease expired",
			"short: lockpipe: lease expired",
		}, s.reported())

		time.Sleep(time.Minute)
		start = time.Now()
		second := hold(t, m, "second", 10*time.Second, never).Context()
		time.Sleep(suspensionCheck / 2)
		box.suspend(9 * time.Second)
		<-second.Done()
		require.Equal(t, Validity(10*time.Second)-9*time.Second, time.Since(start), "by its event")
	})
}

// The goal: the manager does not read the clock while there are no leases, and seldom while there
// are.
func TestSuspension_TheManagerChecksWhileThereAreLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		m, _ := manager(t, func(cfg *Config) {
			cfg.Clock = NewClock(func(time.Time) time.Duration { looks.Add(1); return 0 })
		})
		terms := make([]*Term, 10_000)
		for i := range terms {
			terms[i] = hold(t, m, i, time.Hour, never)
		}
		looks.Store(0)
		pass(time.Minute)
		ticks := int64(time.Minute / suspensionCheck)
		require.GreaterOrEqual(t, looks.Load(), ticks)
		require.LessOrEqual(t, looks.Load(), 3*ticks)
		for _, term := range terms {
			_ = term.End(ErrReleased)
		}
		pass(suspensionCheck)
		looks.Store(0)
		pass(time.Hour)
		require.Zero(t, looks.Load())
	})
}

// The goal: validity counts from the sending, also when the machine is suspended between that and
// the answers, and however often.
func TestSuspension_BetweenSendingAndGrantCounts(t *testing.T) {
	onAMachine(t, func(t *testing.T, box *machine, m *Manager, _ *masters) {
		g := Grant{Sent: m.clock.Now(), TTL: usualTTL}
		for range 3 {
			box.suspend(time.Second)
			_ = m.clock.Now() // another caller looks
		}
		term := new(Term)
		require.NoError(t, m.Hold(term, "k", g))
		require.Equal(t, time.Now().Add(Validity(usualTTL)-3*time.Second), untilTime(term))
		require.Equal(t, time.Now(), term.Began())

		box.suspend(Validity(usualTTL) - 3*time.Second)
		require.Equal(t, ErrExpired, why(m.Hold(new(Term), "late", g)))
		require.Equal(t, ErrExpired, why(term.Err()))
	})
}

// The goal: an extension does not bring a lease back that ran out while the machine was suspended,
// although it was sent before. If the lease lasts, it counts from its sending.
func TestSuspension_DuringAnExtension(t *testing.T) {
	onAMachine(t, func(t *testing.T, box *machine, m *Manager, _ *masters) {
		for _, slept := range []time.Duration{Validity(usualTTL), Validity(usualTTL) - 1} {
			term := hold(t, m, "k", usualTTL, never)
			e, err := term.BeginExtension(t.Context(), time.Minute)
			require.NoError(t, err)
			box.suspend(slept)
			err = e.Finish()
			if slept == Validity(usualTTL) {
				require.Equal(t, ErrExpired, why(err))
				require.Equal(t, ErrExpired, why(term.Err()))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, time.Now().Add(Validity(time.Minute)-slept), untilTime(term))
		}
	})
}

// The goal: as above, for extensions that the manager makes. They continue if the lease lasts.
func TestSuspension_DuringAnAutomaticExtension(t *testing.T) {
	for _, slept := range []time.Duration{3 * time.Second, 10 * time.Second} {
		onAMachine(t, func(t *testing.T, box *machine, m *Manager, s *masters) {
			s.set(func(*Extension) error { return errHangs })
			term := hold(t, m, "k", usualTTL, time.Hour)
			for len(s.tried()) == 0 {
				pass(time.Millisecond)
			}
			box.suspend(slept)
			s.set(func(*Extension) error { return nil })
			close(s.gate)
			synctest.Wait()
			if slept < 5*time.Second { // a third of the validity is left when it is sent, or more
				sent := s.tried()[0].at
				require.Equal(t, sent.Add(Validity(usualTTL)-slept), untilTime(term))
				pass(time.Minute)
				require.NoError(t, term.Err())
				return
			}
			require.ErrorIs(t, term.Err(), ErrLost)
		})
	}
}

// The goal: a lease that is handed off has no more time for the receiver than for the giver, even
// if the machine is suspended in between.
func TestSuspension_DuringAHandoff(t *testing.T) {
	onAMachine(t, func(t *testing.T, box *machine, m *Manager, _ *masters) {
		first, second := hold(t, m, "first", usualTTL, never), new(Term)
		until, ok := first.HandOff()
		require.True(t, ok)
		g := Grant{Sent: m.clock.Now(), TTL: time.Minute, Until: until}
		box.suspend(3 * time.Second)
		require.Equal(t, 3*time.Second-Validity(usualTTL), m.clock.Since(g.Until))
		require.NoError(t, m.Hold(second, "second", g))
		require.Equal(t, time.Now().Add(Validity(usualTTL)-3*time.Second), untilTime(second))
	})
}

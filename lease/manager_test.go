package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: a lease is extended when between two thirds and one third of its validity are left, for
// as long as maxHold lasts. Then it ends to the nanosecond, and the TTL of the keys with it.
func TestAutoExtend_UntilMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		start := time.Now()
		term := hold(t, m, "k", usualTTL, time.Minute)
		ctx := term.Context()
		<-ctx.Done()
		require.Equal(t, time.Minute, time.Since(start))
		require.ErrorIs(t, context.Cause(ctx), ErrExpired)
		require.NotErrorIs(t, context.Cause(ctx), ErrLost)
		require.ErrorContains(t, context.Cause(ctx), "maxHold")
		synctest.Wait()
		require.Equal(t, []string{"k: " + errMaxHold.Error()}, s.reported())

		v, until := Validity(usualTTL), start.Add(Validity(usualTTL))
		tries := s.tried()
		for i, e := range tries {
			left := until.Sub(e.at)
			require.LessOrEqual(t, left, v*2/3+linger+tick, "extension %d", i)
			require.Greater(t, left, v/3, "extension %d", i)
			until = e.at.Add(Validity(e.ttl))
			if i < len(tries)-1 {
				require.Equal(t, usualTTL, e.ttl)
			}
		}
		require.False(t, until.Before(start.Add(time.Minute)))
		require.Less(t, until.Sub(start.Add(time.Minute)), 2*time.Millisecond)
		require.Less(t, len(tries), 19) // 60 s in steps of a third at least
	})
}

// The goal: a first TTL that reaches maxHold needs no extension, and one that almost reaches it
// ends at maxHold too.
func TestAutoExtend_AShortMaxHold(t *testing.T) {
	for _, ttl := range []time.Duration{TTLFor(time.Second), time.Second, 900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			m, s := manager(t)
			start := time.Now()
			term := hold(t, m, "k", ttl, time.Second)
			<-term.Context().Done()
			require.Equal(t, time.Second, time.Since(start))
			require.Equal(t, errMaxHold, why(term.Err()))
			if Validity(ttl) >= time.Second {
				require.Empty(t, s.tried())
			}
		})
	}
}

// The goal: a failed extension is retried until it succeeds, several times within the remaining
// validity, more often towards the end, and never after the deadline.
func TestAutoExtend_AFailedExtensionIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		start := time.Now()
		s.set(fail)
		term := hold(t, m, "k", usualTTL, time.Hour)
		<-term.Context().Done()
		require.Equal(t, Validity(usualTTL), time.Since(start))
		require.ErrorIs(t, term.Err(), ErrLost)
		require.ErrorContains(t, term.Err(), "no quorum")
		require.NotErrorIs(t, term.Err(), errNodes, "it is not how the lease ended")
		synctest.Wait()
		require.Equal(t, []string{"k: " + why(term.Err()).Error()}, s.reported())
		require.GreaterOrEqual(t, len(s.tried()), 16)
		require.LessOrEqual(t, len(s.tried()), 100)
		v := Validity(usualTTL)
		for i, e := range s.tried() {
			require.True(t, e.at.Before(start.Add(v)))
			if i > 0 {
				require.LessOrEqual(t, e.at.Sub(s.tried()[i-1].at), v/48)
			}
		}

		again := hold(t, m, "again", usualTTL, time.Hour)
		pass(Validity(usualTTL) - 20*time.Millisecond)
		s.set(func(*Extension) error { return nil })
		pass(time.Minute)
		require.NoError(t, again.Err(), "the last moment is soon enough")
	})
}

// The goal: although an extension hangs, the loss is reported at the deadline, and other leases are
// extended.
func TestAutoExtend_AHungExtensionDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		s.set(func(e *Extension) error {
			if e.Owner == "hung" {
				return errHangs
			}
			return nil
		})
		start := time.Now()
		hung := hold(t, m, "hung", usualTTL, time.Hour)
		ctx := hung.Context()
		var others []*Term
		for i := range 3000 {
			others = append(others, hold(t, m, i, usualTTL, time.Hour))
		}
		<-ctx.Done()
		require.Equal(t, Validity(usualTTL), time.Since(start))
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		pass(time.Minute)
		for _, other := range others {
			require.NoError(t, other.Err())
		}
		close(s.gate)
		synctest.Wait()
		require.ErrorIs(t, hung.Err(), ErrLost, "the late confirmation does not bring it back")
		require.Equal(t, []string{"hung: " + errUnextended.Error()}, s.reported())
	})
}

// holdMany begins terms, lets each become due once, and returns the sizes of the batches.
func holdMany(t *testing.T, m *Manager, s *masters, count int) []int {
	t.Helper()
	s.set(func(*Extension) error { time.Sleep(time.Microsecond); return nil })
	for i := range count {
		hold(t, m, i, usualTTL, time.Hour)
	}
	pass(Validity(usualTTL) * 2 / 3)
	s.mu.Lock()
	defer s.mu.Unlock()
	who := map[any]bool{}
	for _, e := range s.tries {
		who[e.who] = true
	}
	require.Equal(t, count, len(who), "each once") //nolint:testifylint // Len would print them all
	require.LessOrEqual(t, s.most, maxBatches)
	return s.sizes
}

// The goal: leases that are due together share batches, which are not large unless they have to be:
// acquiring calls wait behind them. The batches under way are bounded.
func TestBatches_LeasesDueTogetherShareOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		sizes := holdMany(t, m, s, 20_000)
		require.Less(t, len(sizes), 370, "one each 10 ms, in 3.3 s")
		large := slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return n <= 192 })
		require.Less(t, len(large), len(sizes)/20, "%v", large)
	})
}

// The goal: a few leases wait for each other a little, and none beyond a third of its validity.
func TestBatches_AFewDueLeasesLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		start := time.Now()
		sizes := holdMany(t, m, s, 1000)
		require.Less(t, len(sizes), 340, "one each 10 ms in 3.3 s")
		for _, e := range s.tried() {
			require.LessOrEqual(t, e.at.Sub(start), Validity(usualTTL)*2/3)
		}
	})
}

// The goal: a lease with a short TTL does not linger as long as the leases with long ones.
func TestBatches_AShortLeaseAmongLongOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 64 * time.Millisecond
		m, s := manager(t)
		for i := range 400 { // due every 9 ms
			hold(t, m, i, usualTTL, time.Hour)
		}
		pass(5 * time.Second)
		v, until := Validity(ttl), time.Now().Add(Validity(ttl))
		hold(t, m, "short", ttl, time.Hour)
		pass(20 * time.Second)
		for _, e := range s.tried() {
			if e.who == "short" {
				require.GreaterOrEqual(t, until.Sub(e.at), v/2)
				until = e.at.Add(v)
			}
		}
		require.True(t, until.After(time.Now()))
	})
}

// The goal: a retry does not linger: a short lease has as many retries as a long one.
func TestAutoExtend_RetriesOfAShortLease(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, usualTTL} {
		synctest.Test(t, func(t *testing.T) {
			m, s := manager(t)
			s.set(fail)
			term := hold(t, m, "k", ttl, time.Hour)
			<-term.Context().Done()
			tries, v := s.tried(), Validity(ttl)
			require.GreaterOrEqual(t, len(tries), 16)
			for i := range tries[1:] {
				require.LessOrEqual(t, tries[i+1].at.Sub(tries[i].at), v/delayParts, "try %d of %d",
					i+1, len(tries))
			}
		})
	}
}

// The goal: after an outage that left everything due, the nearest deadlines go first.
func TestBatches_TheNearestDeadlineFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		s.setDown(true)
		for i := range maxBatch - 1 {
			hold(t, m, i, 40*time.Second, time.Hour)
		}
		pass(19 * time.Second)
		short := hold(t, m, "short", time.Second, time.Hour)
		pass(800 * time.Millisecond)
		require.Empty(t, s.tried(), "nothing is tried that can't succeed")
		s.setDown(false)
		pass(recheck)
		require.NotEmpty(t, s.tried())
		require.Equal(t, "short", s.tried()[0].who)
		pass(10 * time.Second)
		require.NoError(t, short.Err())
		require.Empty(t, s.reported())
		require.Equal(t, maxBatch, m.Held())
	})
}

// The goal: a lease that an extension finds gone is lost at once, and that is reported.
func TestAutoExtend_ALeaseThatIsGoneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		gone := errors.Join(ErrLost, errors.New("3 nodes do not hold it"))
		s.set(func(*Extension) error { return gone })
		start := time.Now()
		term := hold(t, m, "k", usualTTL, time.Hour)
		<-term.Context().Done()
		require.LessOrEqual(t, time.Since(start), Validity(usualTTL)*2/3)
		require.Equal(t, gone, context.Cause(term.Context()))
		synctest.Wait()
		require.Len(t, s.reported(), 1)
		require.Len(t, s.tried(), 1)
		pass(time.Hour)
		require.Len(t, s.reported(), 1)
		require.Zero(t, m.Held())
	})
}

// The goal: while an extension by hand is under way, there is no automatic one. The automatic ones
// use its TTL afterwards, and none comes that is not needed. They continue after it failed.
func TestExtension_ByHandAndAutomatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		term := hold(t, m, "k", usualTTL, time.Hour)
		e, err := term.BeginExtension(t.Context(), usualTTL)
		require.NoError(t, err)
		pass(9 * time.Second)
		require.Empty(t, s.tried(), "it has the turn")
		e.Err = errNodes
		require.Equal(t, errNodes, e.Finish())
		pass(500 * time.Millisecond)
		require.Len(t, s.tried(), 1)
		require.NoError(t, extend(t, term, time.Minute))
		pass(19 * time.Second)
		require.Len(t, s.tried(), 1, "there is still much left")
		pass(21 * time.Second)
		require.Len(t, s.tried(), 2)
		require.Equal(t, time.Minute, s.tried()[1].ttl)

		// A shortening that is not confirmed leaves little time, and that is enough.
		e, err = term.BeginExtension(t.Context(), 100*time.Millisecond)
		require.NoError(t, err)
		e.Err = errNodes
		require.Equal(t, errNodes, e.Finish())
		pass(time.Hour - time.Minute)
		require.NoError(t, term.Err())
		require.NoError(t, extend(t, term, 2*time.Hour))
		require.True(t, m.clock.Time(term.maxHoldEnd).Equal(untilTime(term)),
			"not beyond maxHold")
		pass(time.Minute)
		require.Equal(t, errMaxHold, why(term.Err()))
	})
}

// The goal: Close ends the terms that last and the extensions under way. No term begins later, and
// ends from before are reported.
func TestManager_CloseEndsEveryTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		s.set(func(e *Extension) error { <-m.ctx.Done(); return m.ctx.Err() })
		first, second := hold(t, m, "first", time.Minute, never), hold(t, m, "second", time.Hour,
			never)
		released, expired := hold(t, m, "released", time.Minute, never), hold(t, m, "expired",
			usualTTL, never)
		hung := hold(t, m, "hung", usualTTL, time.Hour)
		released.End(ErrReleased)
		ctx := first.Context()
		time.Sleep(Validity(usualTTL) - time.Millisecond)
		m.timer.Stop()
		time.Sleep(time.Millisecond)
		require.ElementsMatch(t, []any{"first", "second"}, m.Close())
		require.Equal(t, ErrClosed, context.Cause(ctx))
		require.Equal(t, ErrClosed, second.Err())
		require.Equal(t, ErrReleased, released.Err())
		require.Equal(t, ErrExpired, why(expired.Err()))
		require.Equal(t, errUnextended, why(hung.Err()))
		require.ElementsMatch(t, []string{"expired: lockpipe: lease expired", "hung: " +
			errUnextended.Error()}, s.reported())
		late := new(Term)
		require.Equal(t, ErrClosed, m.Hold(late, "late", Grant{
			Sent: m.clock.Now(), TTL: time.Minute,
			MaxHold: never,
		}))
		require.Equal(t, ErrClosed, late.Err())
		require.Empty(t, m.Close())
		require.Zero(t, m.Held())
	})
}

// The goal: leases that end while nothing can be extended are forgotten and say so, those that were
// extended by hand continue, and QuorumReachable is not called while nothing is due.
func TestManager_AnOutageLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		s.setDown(true)
		for i := range 1000 {
			hold(t, m, i, usualTTL, time.Hour)
		}
		other := hold(t, m, "other", usualTTL, time.Hour)
		pass(7 * time.Second)
		require.NoError(t, extend(t, other, 40*time.Second))
		pass(5 * time.Second) // it is not due before another five
		require.Len(t, s.reported(), 1000)
		require.Contains(t, s.reported()[0], "not extended in time: too few nodes can vote")
		require.Zero(t, m.waiting())
		s.setDown(false)
		pass(time.Minute)
		require.NoError(t, other.Err())
		require.NotEmpty(t, s.tried())
		other.End(ErrReleased)
		pass(time.Minute)
		require.False(t, m.timer.Stop(), "no timer runs")
	})
}

// The goal: a lease that was granted too late never begins, and always reports the same end.
func TestManager_ALeaseWithoutTimeLeftDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		for _, maxHold := range []time.Duration{never, time.Hour, 9 * time.Second} {
			term := new(Term)
			require.Equal(t, ErrExpired, m.Hold(term, "k", Grant{
				Sent: m.clock.Now().after(-Validity(usualTTL)), TTL: usualTTL, MaxHold: maxHold,
			}))
			require.Equal(t, ErrExpired, why(term.Err()))
		}
		pass(time.Hour)
		require.Empty(t, s.reported())
	})
}

// The goal: many leases of all lengths, extended by hand and automatically, shortened and released
// at random, each end with the right cause. Then the manager knows none, keeps no timer and gives
// its memory back.
func TestManager_ManyLeasesEndAsTheyShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		want := map[string]int{}
		var terms []*Term
		for i := range 5000 {
			ttl := time.Duration(i%997+1) * time.Second / 10
			switch i % 5 {
			case 0:
				terms = append(terms, hold(t, m, i, ttl, never))
				require.Equal(t, ErrReleased, terms[i].End(ErrReleased))
				want[ErrReleased.Error()]++
			case 1:
				terms = append(terms, hold(t, m, i, ttl, never))
				require.NoError(t, extend(t, terms[i], time.Hour))
				want[ErrExpired.Error()]++
			case 2:
				terms = append(terms, hold(t, m, i, ttl, 2*time.Minute))
				want[errMaxHold.Error()]++
			case 3:
				terms = append(terms, hold(t, m, i, time.Hour, never))
				require.NoError(t, extend(t, terms[i], ttl))
				want[ErrExpired.Error()]++
			default:
				terms = append(terms, hold(t, m, i, ttl, never))
				want[ErrExpired.Error()]++
			}
		}
		pass(time.Hour)
		got := map[string]int{}
		for _, term := range terms {
			got[why(term.Err()).Error()]++
		}
		require.Equal(t, want, got)
		require.Len(t, s.reported(), 4000)
		require.Zero(t, m.Held())
		require.Zero(t, m.timerAt)
		require.False(t, m.timer.Stop(), "no timer runs while nothing is held")
		require.LessOrEqual(t, cap(m.events.events), 2048)
		require.Zero(t, m.waiting())
		again := hold(t, m, "again", time.Second, never)
		pass(time.Second)
		require.Equal(t, ErrExpired, why(again.Err()))
	})
}

// The goal: ExtendAll has each lease extended that is extended automatically, at once and whatever
// time it has left, until that was confirmed. A lease that began before is not forgotten, and none
// is extended twice for it.
func TestManager_ExtendsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		require.True(t, m.AllExtended())
		m.ExtendAll()
		require.True(t, m.AllExtended(), "there is none")
		for i := range 100 {
			hold(t, m, fmt.Sprint(i), usualTTL, time.Hour)
		}
		hold(t, m, "by hand", usualTTL, never)
		pass(time.Second)
		require.Empty(t, s.tried())
		s.set(fail)
		m.ExtendAll()
		pass(time.Second)
		require.GreaterOrEqual(t, len(s.tried()), 200, "each is tried again")
		require.False(t, m.AllExtended())
		s.set(func(*Extension) error { return nil })
		tried := len(s.tried())
		pass(time.Second)
		require.True(t, m.AllExtended())
		require.Len(t, s.tried(), tried+100)
	})
}

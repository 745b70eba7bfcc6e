package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: however long a lease is, it is extended when between three quarters and half of its
// validity are left; the time to linger is small compared with a short one too.
func TestAutoExtend_LeasesOfAllLengthsInTime(t *testing.T) {
	for _, ttl := range []time.Duration{
		10 * time.Millisecond, 50 * time.Millisecond, time.Second,
		usualTTL, time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, s := manager(t)
			v, until := Validity(ttl), time.Now().Add(Validity(ttl))
			hold(t, m, "k", ttl, 50*ttl)
			pass(48 * ttl)
			for _, e := range s.tried() {
				left := until.Sub(e.at)
				require.LessOrEqual(t, left, v*3/4+min(10*time.Millisecond, v/32), "%v", ttl)
				require.GreaterOrEqual(t, left, v/2-1, "%v", ttl)
				until = e.at.Add(Validity(e.ttl))
			}
			require.True(t, until.After(time.Now()))
		})
	}
}

// The goal: an extension that fails is tried again after V/64 to V/32, and towards the end after a
// quarter to half of what is left, but no sooner than after a millisecond: so the last try is two
// milliseconds before the end, or later. No try takes more than half of what is left.
func TestAutoExtend_RetriesAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		s.set(fail)
		v, until := Validity(usualTTL), time.Now().Add(Validity(usualTTL))
		for i := range 20 {
			hold(t, m, i, usualTTL, time.Hour)
		}
		pass(v)
		last, sooner, later := map[any]time.Time{}, 0, 0
		for _, e := range s.tried() {
			left := until.Sub(e.at)
			require.Equal(t, e.at.Add(left/2), e.ask.SendBefore)
			require.Equal(t, min(v/16, left/2), e.ask.MinTimeout)
			if before, again := last[e.who]; again {
				pause, least := e.at.Sub(before), max(min(v/64, until.Sub(before)/4),
					time.Millisecond)
				require.GreaterOrEqual(t, pause, least)
				require.Less(t, pause, 2*least+2)
				if sooner++; pause > least*3/2 {
					sooner, later = sooner-1, later+1
				}
			}
			last[e.who] = e.at
		}
		require.Len(t, last, 20)
		for _, at := range last {
			require.LessOrEqual(t, until.Sub(at), 2*time.Millisecond)
		}
		require.Greater(t, min(sooner, later), 20, "at random, so that those that failed "+
			"together do not stay together")
	})
}

// The goal: a lease that begins with little time left, as one that was handed off, is not extended
// at once, because mostly it is released before that. Later it does not linger for others.
func TestAutoExtend_ALeaseThatBeginsLateSoonButNotAtOnce(t *testing.T) {
	for range 50 { // the pauses are random
		synctest.Test(t, func(t *testing.T) {
			m, s := manager(t)
			start, v := time.Now(), Validity(usualTTL)
			term := new(Term)
			require.NoError(t, m.Hold(term, "k", Grant{
				Sent: start, TTL: usualTTL,
				Until: start.Add(v / 4), MaxHold: time.Hour,
			}))
			pass(v / 4)
			require.NoError(t, term.Err())
			require.InDelta(t, v*3/128, s.tried()[0].at.Sub(start), float64(v/128))
		})
	}
}

// The goal: a lease that was due while nothing could be extended is not extended when something
// can, if it is over by then, or while it is being extended by hand.
func TestAutoExtend_ChecksAgainWhatWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := manager(t)
		s.setDown(true)
		released, byHand := hold(t, m, "released", usualTTL, time.Hour), hold(t, m, "by hand",
			usualTTL, time.Hour)
		hold(t, m, "other", usualTTL, time.Hour)
		pass(Validity(usualTTL) / 2)
		require.Equal(t, 3, m.waiting())
		require.Equal(t, ErrReleased, released.End(ErrReleased))
		e, err := byHand.BeginExtension(t.Context(), usualTTL)
		require.NoError(t, err)
		s.setDown(false)
		pass(recheck)
		tries := s.tried()
		require.Len(t, tries, 1)
		require.Equal(t, "other", tries[0].who)
		e.Sent = time.Now()
		require.NoError(t, e.Finish())
		pass(time.Minute)
		require.NoError(t, byHand.Err())

		expired := hold(t, m, "expired", usualTTL, time.Hour)
		_, due := expired.startAuto(expired.deadline())
		require.False(t, due)
	})
}

package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: however long a lease is, it is extended when between two thirds and one third of its
// validity are left. A lease below 100 ms is extended when between three quarters and half are
// left, because a pause does not get shorter with it. The time to linger is small compared with a
// short one too.
func TestAutoExtend_LeasesOfAllLengthsInTime(t *testing.T) {
	for _, ttl := range []time.Duration{
		10 * time.Millisecond, 50 * time.Millisecond, 130 * time.Millisecond, time.Second,
		usualTTL, time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, s := manager(t)
			v, until := Validity(ttl), time.Now().Add(Validity(ttl))
			early, late := v*2/3, v/3
			switch {
			case ttl < 100*time.Millisecond:
				early, late = v*3/4, v/2
			case ttl < 150*time.Millisecond:
				late = 50 * time.Millisecond
			}
			hold(t, m, "k", ttl, 50*ttl)
			pass(48 * ttl)
			for _, e := range s.tried() {
				left := until.Sub(e.at)
				require.LessOrEqual(t, left, early+min(10*time.Millisecond, v/48)+
					min(time.Millisecond, v/48), "%v", ttl)
				require.GreaterOrEqual(t, left, late-1, "%v", ttl)
				until = e.at.Add(Validity(e.ttl))
			}
			require.True(t, until.After(time.Now()))
		})
	}
}

// The goal: an extension that fails is tried again after V/96 to V/48, and towards the end after a
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
			require.Equal(t, min(v/24, left/2), e.ask.MinTimeout)
			if before, again := last[e.who]; again {
				pause, least := e.at.Sub(before), max(min(v/96, until.Sub(before)/4),
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

// The goal: if all nodes hang, and so each try takes as long as it may, five or more begin before
// the deadline, and the fifth has some time: with a TTL of 10 s and a NodeTimeout of up to 600 ms,
// and with a TTL from 100 ms on if NodeTimeout is a twentieth of it. A lease of 10 ms has one more
// try. The first one begins behind the latest moment, as a retry does.
func TestAutoExtend_TriesWhileAllNodesHang(t *testing.T) {
	for _, test := range []struct {
		ttl, nodeTimeout time.Duration
		tries            int
		fifth            time.Duration // how long it may take
	}{
		{usualTTL, 10 * time.Millisecond, 8, 250 * time.Millisecond},
		{usualTTL, 50 * time.Millisecond, 8, 250 * time.Millisecond},
		{usualTTL, 600 * time.Millisecond, 6, 80 * time.Millisecond},
		{time.Minute, 50 * time.Millisecond, 8, 1500 * time.Millisecond},
		{time.Second, 50 * time.Millisecond, 5, 12 * time.Millisecond},
		{300 * time.Millisecond, 15 * time.Millisecond, 5, 4 * time.Millisecond},
		{100 * time.Millisecond, 5 * time.Millisecond, 5, 2 * time.Millisecond},
		{10 * time.Millisecond, time.Millisecond, 1, 0},
	} {
		for range 20 { // the pauses are random
			synctest.Test(t, func(t *testing.T) {
				m, s := manager(t)
				_, late := dueWith(Validity(test.ttl))
				s.set(func(e *Extension) error {
					time.Sleep(min(max(test.nodeTimeout, e.MinTimeout), time.Until(e.SendBefore)))
					return errNodes
				})
				term := new(Term)
				require.NoError(t, m.Hold(term, "k", Grant{
					Sent: m.clock.Now(), TTL: test.ttl, Until: m.clock.Now().after(late),
					MaxHold: time.Hour,
				}))
				<-term.Context().Done()
				tries := s.tried()
				require.GreaterOrEqual(t, len(tries), test.tries, "%v", test)
				if len(tries) >= 5 {
					at, ask := tries[4].at, tries[4].ask
					timeout := min(max(test.nodeTimeout, ask.MinTimeout),
						ask.SendBefore.Sub(at))
					require.GreaterOrEqual(t, timeout, test.fifth, "%v", test)
				}
			})
		}
	}
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
				Sent: m.clock.Now(), TTL: usualTTL, Until: m.clock.Now().after(v / 4),
				MaxHold: time.Hour,
			}))
			pass(v / 4)
			require.NoError(t, term.Err())
			require.InDelta(t, v*3/192, s.tried()[0].at.Sub(start), float64(v/192))
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
		pass(Validity(usualTTL) * 2 / 3)
		require.Equal(t, 3, m.waiting())
		require.Equal(t, ErrReleased, released.End(ErrReleased))
		e, err := byHand.BeginExtension(t.Context(), usualTTL)
		require.NoError(t, err)
		s.setDown(false)
		pass(recheck)
		tries := s.tried()
		require.Len(t, tries, 1)
		require.Equal(t, "other", tries[0].who)
		require.NoError(t, e.Finish())
		pass(time.Minute)
		require.NoError(t, byHand.Err())

		expired := hold(t, m, "expired", usualTTL, time.Hour)
		_, due := expired.startAuto(expired.until)
		require.False(t, due)
	})
}

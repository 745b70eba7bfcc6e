package lockpipe

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: if the nodes come back after the call looked at them and before it was parked, the
// call is woken: it does not sleep through that.
func TestOutage_TheNodesComeBackWhileACallIsParked(t *testing.T) {
	var o outage
	looks, woken := 0, 0
	o.reachable = func() bool {
		if looks++; looks == 1 {
			o.wakeNext() // there is nobody to wake yet
			return false
		}
		return true
	}
	p := &parkedCall{wake: func() { woken++ }}
	require.False(t, o.admit(p))
	require.Equal(t, 1, woken)
	require.True(t, o.admit(p))
}

// The goal: calls that were woken and don't come to an end keep the next ones from their attempts
// for a short time only, also if nobody was parked when they were woken.
func TestOutage_CallsThatHangDoNotKeepTheirPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reachable := false
		o := outage{reachable: func() bool { return reachable }}
		for range maxAwake {
			require.False(t, o.admit(&parkedCall{wake: func() {}}))
		}
		o.wakeNext()
		var woken atomic.Bool
		require.False(t, o.admit(&parkedCall{wake: func() { woken.Store(true) }}))
		reachable = true
		o.wakeNext()
		time.Sleep(maxAwakeTime - 1)
		require.False(t, woken.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.True(t, woken.Load())
	})
}

// logLines takes the lines of a log.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// The goal: while calls are parked and no quorum can be reached, the log has a reminder each
// minute, also if the calls of that minute came one after another. It has none while a quorum can
// be reached, and no timer runs while no call is parked.
func TestOutage_RemindsOfCallsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := make(logLines, 100)
		var reachable atomic.Bool
		o := outage{logger: slog.New(slog.NewTextHandler(lines, nil))}
		o.reachable = reachable.Load
		reminders := func() int {
			synctest.Wait()
			return len(lines)
		}
		park := func() *parkedCall {
			p := &parkedCall{arrived: time.Now(), wake: func() {}}
			require.False(t, o.admit(p))
			return p
		}
		first, second := park(), park()
		time.Sleep(time.Minute - 1)
		require.Zero(t, reminders())
		time.Sleep(time.Minute)
		require.Equal(t, 1, reminders())
		time.Sleep(time.Minute)
		require.Equal(t, 2, reminders())
		require.Contains(t, <-lines, "can be reached, and calls wait\" calls=2 longest=1m0s")
		require.Contains(t, <-lines, "calls=2 longest=2m0s")
		o.finish(first)
		o.finish(second)
		require.False(t, o.reminderSet)
		time.Sleep(10 * time.Minute)
		require.Zero(t, reminders(), "nobody waited")

		for range 5 { // calls that wait one after another
			p := park()
			time.Sleep(25 * time.Second)
			o.finish(p)
		}
		require.Equal(t, 2, reminders())

		p := park()
		reachable.Store(true)
		o.wakeNext()
		reachable.Store(false)
		require.False(t, o.reminderSet)
		require.False(t, o.admit(p))
		time.Sleep(time.Minute - 1)
		require.Equal(t, 2, reminders(), "a quorum could be reached")
		time.Sleep(time.Second)
		require.Equal(t, 3, reminders())
		reachable.Store(true)
		time.Sleep(10 * time.Minute)
		require.Equal(t, 3, reminders())
		o.finish(p)
	})
}

// dumbOutage is an outage that keeps all calls in one list and searches it for everything.
type dumbOutage struct {
	arrived []*parkedCall // all calls, in the order of arrival
	parked  map[*parkedCall]bool
	awake   map[*parkedCall]bool // in this round
	late    map[*parkedCall]bool // woken in an earlier round
}

// wakeNext returns the calls that are woken.
func (d *dumbOutage) wakeNext() (woken []*parkedCall) {
	for _, p := range d.arrived {
		if d.parked[p] && len(d.awake) < maxAwake {
			delete(d.parked, p)
			d.awake[p] = true
			woken = append(woken, p)
		}
	}
	return woken
}

// admit reports whether the call may try, and returns the calls that are woken.
func (d *dumbOutage) admit(p *parkedCall, reachable bool) (bool, []*parkedCall) {
	switch {
	case d.parked[p]:
		return false, nil
	case reachable && (d.awake[p] || d.late[p] || len(d.parked) == 0):
		return true, nil
	}
	d.forget(p)
	d.parked[p] = true
	return false, d.look(reachable)
}

// forget takes the call out of the outage.
func (d *dumbOutage) forget(p *parkedCall) {
	delete(d.parked, p)
	delete(d.awake, p)
	delete(d.late, p)
}

// look returns the calls that are woken.
func (d *dumbOutage) look(reachable bool) []*parkedCall {
	if !reachable {
		return nil
	}
	return d.wakeNext()
}

// The goal: after any sequence of operations, the outage admits and wakes the same calls as a
// version that searches one list, in the same order, and never more than the limit at once.
func TestOutage_AgainstADumbVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, againstADumbVersion) // where no timer runs out meanwhile
}

func againstADumbVersion(t *testing.T) {
	const calls = maxAwake + 64
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 0))
		reachable := false
		o := outage{reachable: func() bool { return reachable }}
		type set = map[*parkedCall]bool
		d := &dumbOutage{parked: set{}, awake: set{}, late: set{}}
		var got, want []*parkedCall
		for i := range calls {
			p := &parkedCall{arrived: time.Unix(int64(i), 0)}
			p.wake = func() { got = append(got, p) }
			d.arrived = append(d.arrived, p)
		}
		joined := set{} // a call that is not parked has nothing to finish
		for range 4000 {
			p := d.arrived[r.IntN(calls)]
			got, want = nil, nil
			switch n := r.IntN(1000); {
			case n < 5:
				if reachable = !reachable; reachable {
					o.wakeNext()
					want = d.wakeNext()
				}
			case n < 7:
				o.nextRound()
				maps.Copy(d.late, d.awake)
				clear(d.awake)
				want = d.look(reachable)
			case n < 600:
				may, woken := d.admit(p, reachable)
				require.Equal(t, may, o.admit(p))
				want, joined[p] = woken, joined[p] || !may
			case joined[p]:
				d.forget(p)
				delete(joined, p)
				o.finish(p)
				want = d.look(reachable)
			}
			require.True(t, slices.Equal(want, got), "seed %d", seed)
			require.Len(t, d.awake, o.awake)
			require.Len(t, d.parked, len(o.parked))
		}
		for _, p := range d.arrived {
			o.finish(p)
		}
		require.Zero(t, o.awake)
		require.Nil(t, o.parked)
	}
}

package outage

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
func TestQueue_TheNodesComeBackWhileACallIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, woken := 0, 0
		q := New(nil, func() bool { return false }, slog.Default())
		q.canGrant = func() bool {
			if looks++; looks == 1 {
				go q.StateChanged()
				return false
			}
			return true
		}
		p := &Call{Wake: func() { woken++ }}
		require.False(t, q.Admit(p))
		synctest.Wait()
		require.Equal(t, 1, woken)
		require.True(t, q.Admit(p))
		time.Sleep(2 * ScoutInterval) // so that no timer is left
	})
}

// The goal: calls that were woken and don't come to an end keep the next ones from their attempts
// for a short time only, also if nobody was parked when they were woken.
func TestQueue_CallsThatHangDoNotKeepTheirPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reachable := false
		can := func() bool { return reachable }
		q := New(can, can, slog.Default())
		for range MaxAwake {
			require.False(t, q.Admit(&Call{Wake: func() {}}))
		}
		reachable = true
		q.StateChanged()
		var woken atomic.Bool
		reachable = false
		require.False(t, q.Admit(&Call{Wake: func() { woken.Store(true) }}))
		reachable = true
		q.StateChanged()
		time.Sleep(MaxAwakeTime - 1)
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

// The goal: while calls are parked and no quorum can grant, the log has a reminder each minute, and
// if the calls of that minute came one after another. It has none while a quorum can grant, and no
// timer runs while no call is parked.
func TestQueue_RemindsOfCallsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := make(logLines, 100)
		var canGrant atomic.Bool
		q := New(canGrant.Load, func() bool { return false },
			slog.New(slog.NewTextHandler(lines, nil)))
		reminders := func() int {
			synctest.Wait()
			return len(lines)
		}
		park := func() *Call {
			p := &Call{Arrived: time.Now(), Wake: func() {}}
			require.False(t, q.Admit(p))
			return p
		}
		first, second := park(), park()
		time.Sleep(time.Minute - 2*ScoutInterval)
		require.Zero(t, reminders())
		time.Sleep(time.Minute)
		require.Equal(t, 1, reminders())
		time.Sleep(time.Minute)
		require.Equal(t, 2, reminders())
		require.Contains(t, <-lines, "can grant, and calls wait\" calls=2 longest=1m")
		require.Contains(t, <-lines, "calls=2 longest=2m")
		q.Finish(first)
		q.Finish(second)
		time.Sleep(10 * time.Minute)
		require.Zero(t, reminders(), "nobody waited")
		require.False(t, q.ticking)

		for range 5 { // calls that wait one after another
			p := park()
			time.Sleep(25 * time.Second)
			q.Finish(p)
		}
		require.Equal(t, 2, reminders())

		p := park()
		canGrant.Store(true)
		q.StateChanged()
		canGrant.Store(false)
		require.False(t, q.Admit(p))
		time.Sleep(time.Minute - 2*ScoutInterval)
		require.Equal(t, 2, reminders(), "a quorum could grant")
		time.Sleep(3 * ScoutInterval)
		require.Equal(t, 3, reminders())
		canGrant.Store(true)
		time.Sleep(10 * time.Minute)
		require.Equal(t, 3, reminders())
		q.Finish(p)
	})
}

// The goal: while no quorum can grant, the oldest call makes an attempt each ScoutInterval, and
// no other call does. So what the nodes' states don't show is noticed.
func TestQueue_OneCallTriesNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(func() bool { return false }, func() bool { return true }, slog.Default())
		tries := make([]int, 3)
		for i := range tries {
			p := &Call{Arrived: time.Now()}
			p.Wake = func() {
				if q.Admit(p) {
					tries[i]++
					require.False(t, q.Admit(p))
				}
			}
			require.False(t, q.Admit(p))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * ScoutInterval)
		synctest.Wait()
		require.Equal(t, []int{10, 0, 0}, tries)
	})
}

// dumbQueue is a Queue that keeps all calls in one list and searches it for everything.
type dumbQueue struct {
	arrived []*Call // all calls, in the order of arrival
	parked  map[*Call]bool
	awake   map[*Call]bool // in this round
	late    map[*Call]bool // woken in an earlier round
}

// wakeNext returns the calls that are woken.
func (d *dumbQueue) wakeNext() (woken []*Call) {
	for _, p := range d.arrived {
		if d.parked[p] && len(d.awake) < MaxAwake {
			delete(d.parked, p)
			d.awake[p] = true
			woken = append(woken, p)
		}
	}
	return woken
}

// admit reports whether the call may try, and returns the calls that are woken.
func (d *dumbQueue) admit(p *Call, reachable bool) (bool, []*Call) {
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

// forget takes the call out of the queue.
func (d *dumbQueue) forget(p *Call) {
	delete(d.parked, p)
	delete(d.awake, p)
	delete(d.late, p)
}

// look returns the calls that are woken.
func (d *dumbQueue) look(reachable bool) []*Call {
	if !reachable {
		return nil
	}
	return d.wakeNext()
}

// The goal: after any sequence of operations, the Queue admits and wakes the same calls as a
// version that searches one list, in the same order, and never more than the limit at once.
func TestQueue_AgainstADumbVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, againstADumbVersion) // where no timer runs out meanwhile
}

func againstADumbVersion(t *testing.T) {
	const calls = MaxAwake + 64
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 0))
		reachable := false
		can := func() bool { return reachable }
		q := New(can, can, slog.Default())
		type set = map[*Call]bool
		d := &dumbQueue{parked: set{}, awake: set{}, late: set{}}
		var got, want []*Call
		for i := range calls {
			p := &Call{Arrived: time.Unix(int64(i), 0)}
			p.Wake = func() { got = append(got, p) }
			d.arrived = append(d.arrived, p)
		}
		joined := set{} // a call that is not parked has nothing to finish
		for range 4000 {
			p := d.arrived[r.IntN(calls)]
			got, want = nil, nil
			switch n := r.IntN(1000); {
			case n < 5:
				if reachable = !reachable; reachable {
					q.StateChanged()
					want = d.wakeNext()
				}
			case n < 7:
				q.nextRound()
				maps.Copy(d.late, d.awake)
				clear(d.awake)
				want = d.look(reachable)
			case n < 600:
				may, woken := d.admit(p, reachable)
				require.Equal(t, may, q.Admit(p))
				want, joined[p] = woken, joined[p] || !may
			case joined[p]:
				d.forget(p)
				delete(joined, p)
				q.Finish(p)
				want = d.look(reachable)
			}
			require.True(t, slices.Equal(want, got), "seed %d", seed)
			require.Len(t, q.awake, len(d.awake))
			require.Len(t, d.parked, len(q.parked))
		}
		for _, p := range d.arrived {
			q.Finish(p)
		}
		require.Empty(t, q.awake)
		require.Empty(t, q.parked)
	}
}

package line

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// watchable replies to each question that its key lasts for a minute.
type watchable struct {
	*Node
	gate  chan struct{} // nil, or what a trip waits for
	isOut bool
	trips int
}

func newWatchable(gate chan struct{}) *watchable {
	n := &watchable{Node: NewNode(nil, nil, "", "", 0), gate: gate}
	n.down = func() bool { return n.isOut }
	n.exchange = func(_ []*Ask, answers []Place) {
		if n.trips++; n.gate != nil {
			<-n.gate
		}
		for i := range answers {
			answers[i] = Place{Known: true, Until: time.Now().Add(time.Minute)}
		}
	}
	return n
}

// owner is a watch and its wake-ups.
type owner struct {
	*Watch
	woken chan struct{}
}

func (n *watchable) watch(key string) *owner {
	o := &owner{woken: make(chan struct{}, 100)}
	o.Watch = n.Watch(key, 0, func() { o.woken <- struct{}{} })
	return o
}

func (o *owner) isKnown() bool {
	is, _ := o.State()
	return is.Known
}

func (o *owner) isActive() bool {
	_, active := o.State()
	return active
}

// The goal: a change that is reported before the reply is read is not lost, and the late reply does
// not hide it.
func TestWatch_AChangeBeforeTheReplyIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newWatchable(make(chan struct{}))
		w, other := n.watch("k"), n.watch("k")
		synctest.Wait()
		n.Invalidated([]string{"k"})
		<-w.woken
		<-other.woken
		again := n.watch("k") // while the first reply is still to come
		close(n.gate)
		<-again.woken
		require.True(t, again.isKnown())
		require.False(t, w.isActive())
		n.Invalidated([]string{"k"})
		<-again.woken
		synctest.Wait()
		require.Empty(t, w.woken)
		require.Empty(t, other.woken)
		require.Empty(t, n.watches)
		n.Close(t.Context())
	})
}

// The goal: on a node that is down, and after Close, a watch is not active, and is harmless. Close
// leaves nothing.
func TestWatch_IsNotActiveIfNothingCanBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newWatchable(nil)
		n.isOut = true
		require.False(t, n.watch("k").isActive())
		n.isOut = false
		w := n.watch("k")
		<-w.woken
		require.True(t, w.isKnown())
		n.Close(t.Context())
		<-w.woken
		require.False(t, w.isActive())
		require.False(t, n.watch("k").isActive())
		require.Empty(t, n.watches)
		w.Close()
		w.Close()
		require.Empty(t, w.woken)
	})
}

// The goal: closing a watch takes it off, from between others of its key, sent or not.
func TestWatch_CloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newWatchable(make(chan struct{}))
		var all []*owner
		for range 5 {
			all = append(all, n.watch("k"))
			synctest.Wait()
		}
		for _, i := range []int{2, 4, 0} {
			all[i].Close()
		}
		close(n.gate)
		synctest.Wait()
		require.Empty(t, all[2].woken)
		n.Invalidated([]string{"k"})
		require.Len(t, all[1].woken, 2, "the reply and the change")
		require.Len(t, all[3].woken, 2)
		require.Empty(t, all[0].woken)
		require.Empty(t, n.watches)
		n.Close(t.Context())
	})
}

// The goal: watches that are made together share trips. Expiry is not reported.
func TestWatch_ManyUseFewTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newWatchable(make(chan struct{}))
		var all []*owner
		for range 1000 {
			all = append(all, n.watch("k"))
		}
		close(n.gate)
		synctest.Wait()
		require.LessOrEqual(t, n.trips, 10)
		time.Sleep(2 * time.Minute)
		for _, w := range all {
			require.Len(t, w.woken, 1)
			is, active := w.State()
			require.True(t, active && is.Known)
			require.Zero(t, is.Left())
		}
		n.Close(t.Context())
	})
}

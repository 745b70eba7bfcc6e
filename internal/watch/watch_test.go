package watch

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeNode replies to each query that its keys last for a minute.
type fakeNode struct {
	*Registry
	gate chan struct{} // nil, or what a query waits for

	mu   sync.Mutex // guards all below
	down bool
	keys int // that were queried
}

func (n *fakeNode) query(keys []string, replies []Reply) {
	if n.gate != nil {
		<-n.gate
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys += len(keys)
	for i := range keys {
		replies[i] = Reply{Known: true, Notifies: true, Until: time.Now().Add(time.Minute)}
	}
}

func (n *fakeNode) isDown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.down
}

func (n *fakeNode) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

func newFakeNode(t *testing.T, gate chan struct{}) *fakeNode {
	t.Helper()
	n := &fakeNode{gate: gate}
	n.Registry = NewRegistry(Node{Name: "its name", Down: n.isDown, Query: n.query})
	t.Cleanup(n.Close)
	return n
}

// len returns the number of keys that are watched.
func (n *fakeNode) len() int {
	n.Registry.mu.Lock()
	defer n.Registry.mu.Unlock()
	return len(n.byKey)
}

// owner is a watch and its wake-ups.
type owner struct {
	*Watch
	woken chan struct{}
}

func watching(key string, nodes ...*fakeNode) *owner {
	o := &owner{woken: make(chan struct{}, 100)}
	var all []*Registry
	for _, n := range nodes {
		all = append(all, n.Registry)
	}
	o.Watch = New(all, key, func() { o.woken <- struct{}{} })
	return o
}

// subscribe subscribes, and returns the TTL when the node has replied.
func (o *owner) subscribe() (time.Duration, bool) {
	o.Subscribe(0)
	<-o.woken
	is := o.State()
	return is.TTL, is.Known
}

// The goal: a change that is reported before the reply is read is not lost, and the late reply does
// not hide it.
func TestWatch_AChangeBeforeTheReplyIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		n := newFakeNode(t, gate)
		w, other := watching("k", n), watching("k", n)
		w.Subscribe(0)
		other.Subscribe(0)
		synctest.Wait()
		n.Changed("k")
		<-w.woken
		<-other.woken
		w.Subscribe(0) // while the first reply is still to come
		close(gate)
		<-w.woken
		known := w.State().Known
		require.True(t, known)
		known = other.State().Known
		require.False(t, known, "it was taken off")
		n.Changed("k")
		<-w.woken
		synctest.Wait()
		require.Empty(t, other.woken)
		require.Zero(t, n.len())
	})
}

// The goal: on a node that is down, and after Close, a subscription is harmless and is reported at
// once. Close leaves nothing.
func TestWatch_SubscribeWakesAtOnceIfNothingCanBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t, nil)
		w := watching("k", n)
		n.setDown(true)
		_, known := w.subscribe()
		require.False(t, known)
		require.Zero(t, n.len())
		n.setDown(false)
		_, known = w.subscribe()
		require.True(t, known)
		n.Close()
		n.Wait()
		<-w.woken
		_, known = w.subscribe()
		require.False(t, known)
		require.Zero(t, n.len())
		w.Close()
		w.Close()
		w.Subscribe(0)
		require.Empty(t, w.woken, "a closed watch is not notified")
	})
}

// The goal: closing a watch takes it off its nodes, from between others of its key, sent or not.
func TestWatch_CloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := make(chan struct{}) // closed: the nodes reply
		nodes := []*fakeNode{newFakeNode(t, replies), newFakeNode(t, replies)}
		var all []*owner
		for range 5 {
			w := watching("k", nodes...)
			w.Subscribe(0)
			w.Subscribe(1)
			all = append(all, w)
		}
		for _, i := range []int{2, 4, 0} {
			all[i].Close()
		}
		close(replies)
		synctest.Wait()
		require.Empty(t, all[2].woken)
		nodes[0].Changed("k")
		require.Len(t, all[1].woken, 3, "two replies and the change")
		require.Len(t, all[3].woken, 3)
		require.Empty(t, all[0].woken)
		all[1].Close()
		all[3].Close()
		require.Zero(t, nodes[0].len())
		require.Zero(t, nodes[1].len())
	})
}

// The goal: a watch knows what the node of the last Subscribe says, and that a reply is to come.
func TestWatch_KnowsTheNodeOfTheLastSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFakeNode(t, nil), newFakeNode(t, make(chan struct{}))
		w := watching("k", a, b)
		require.False(t, w.State().Active)
		ttl, known := w.subscribe()
		require.True(t, known && w.State().Active && w.State().Notifies)
		require.Equal(t, time.Minute, ttl)
		w.Subscribe(1)
		require.True(t, w.State().Active, "a reply is to come")
		require.Equal(t, State{Active: true}, w.State())
		w.Subscribe(1)
		close(b.gate)
		<-w.woken
		synctest.Wait()
		require.Equal(t, 1, b.keys, "a reply was awaited already")
		time.Sleep(2 * time.Minute)
		is := w.State()
		require.True(t, is.Known, "expiry is not reported")
		require.Zero(t, is.TTL)
		require.Equal(t, "its name", is.Node)
		b.DropAll()
		<-w.woken
		require.False(t, w.State().Active)
	})
}

package keyqueue

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// engine uses a queue from many goroutines, as the client does. There are no nodes: whether they
// grant keys is random.
type engine struct {
	queue   Queue
	holders [6]atomic.Int64 // which client holds a key; 0: none
	busy    sync.WaitGroup  // goroutines that end reservations and contentions

	grants, handedOver, refused, gaveUp, unreserved atomic.Int64
	broken                                          atomic.Pointer[string]
}

func (e *engine) fail(why string) { e.broken.CompareAndSwap(nil, &why) }

// client is a goroutine that asks for keys again and again.
type client struct {
	Call
	e    *engine
	id   int64
	keys []string
	r    *rand.Rand
	runs atomic.Int64 // how many attempts it has at a time; at most one
	// granted says how its attempts ended. It has room for one.
	granted chan bool
	leaving atomic.Bool // its owner gave up while it ran
}

// Run makes an attempt on another goroutine, as answers of nodes come on other goroutines.
func (c *client) Run() {
	if c.runs.Add(1) != 1 {
		c.e.fail("a call runs twice")
	}
	c.e.busy.Go(c.attempt)
}

// Notify ends a reservation soon, maybe when the call does something else already.
func (c *client) Notify(n News) {
	switch n {
	case Turn:
		c.Run()
	case Reserving:
		c.e.busy.Go(func() {
			runtime.Gosched()
			c.e.unreserved.Add(1)
			c.e.queue.Unreserve(&c.Call)
		})
	}
}

func (c *client) attempt() {
	runtime.Gosched()
	c.runs.Add(-1)
	switch n := rand.IntN(8); {
	case c.leaving.Load():
		c.granted <- false
	case n == 0:
		c.e.refused.Add(1)
		c.e.queue.Contend(&c.Call, c.keys[rand.IntN(len(c.keys))], rand.IntN(2) == 0)
		c.e.busy.Go(c.retry)
		c.e.busy.Go(c.retry) // a push and a timer
	default:
		c.claim()
		c.e.queue.Hold(&c.Call, at(1))
		c.granted <- true
	}
}

func (c *client) retry() {
	runtime.Gosched()
	if c.e.queue.Retry(&c.Call) {
		c.Run()
	}
}

// claim is the moment in which the nodes grant the keys.
func (c *client) claim() {
	c.e.grants.Add(1)
	for _, k := range c.keys {
		if !c.e.holders[k[0]-'a'].CompareAndSwap(0, c.id) {
			c.e.fail("two calls have a key")
		}
	}
}

func (c *client) unclaim() {
	for _, k := range c.keys {
		if !c.e.holders[k[0]-'a'].CompareAndSwap(c.id, 0) {
			c.e.fail("another call has the key of a holder")
		}
	}
}

// once is one round. ended is a channel that says that its ctx ended, at a random moment.
func (c *client) once(ended <-chan struct{}) {
	if runs, _ := c.e.queue.Enter(&c.Call, c.keys, unlimited); runs {
		c.Run()
	}
	select {
	case <-c.granted: // always true, since it has not given up
	case <-ended:
		if c.e.queue.GiveUp(&c.Call) {
			c.e.gaveUp.Add(1)
			return
		}
		c.leaving.Store(true)
		if !c.wait() {
			c.e.queue.Leave(&c.Call, at(1))
			return
		}
	case <-time.After(30 * time.Second):
		c.e.fail("a call is not notified")
		return
	}
	c.release()
}

// wait waits for the end of an attempt that was made when the owner gave up. The attempt may be
// refused at the same time: then the call contends, and the owner gives up again.
func (c *client) wait() (granted bool) {
	for range 30_000_000 {
		select {
		case granted = <-c.granted:
			return granted
		default:
			if c.e.queue.GiveUp(&c.Call) {
				return false
			}
			runtime.Gosched()
		}
	}
	c.e.fail("an attempt is lost")
	return false
}

// release hands the keys over, or leaves.
func (c *client) release() {
	runtime.Gosched()
	c.unclaim()
	if c.r.IntN(2) == 0 {
		if next := c.e.queue.Successor(&c.Call, at(1)); next != nil {
			c.e.handedOver.Add(1)
			next.Begin(nil)
			return
		}
	}
	c.e.queue.Leave(&c.Call, at(1))
	c.e.queue.Leave(&c.Call, at(1)) // does nothing
	if contender := c.e.queue.Contender(c.keys); contender != nil {
		contender.Caller.Notify(Released)
	}
	c.e.queue.Released(c.keys)
}

// The goal: with many goroutines that hold, give up, contend and hand over, no two calls have a
// key, each call that waits is notified, none runs twice, and nothing is left in the queue.
func TestQueue_ConcurrentUse(t *testing.T) {
	const clients, rounds = 12, 1500
	e := &engine{}
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for range rounds {
				if e.broken.Load() != nil {
					return
				}
				c := &client{e: e, id: int64(n + 1), r: r, granted: make(chan bool, 1)}
				c.Caller, c.keys = c, someKeys(r, 4)
				ended := make(chan struct{})
				if r.IntN(3) == 0 {
					e.busy.Go(func() {
						runtime.Gosched()
						close(ended)
					})
				}
				c.once(ended)
			}
		})
	}
	all.Wait()
	e.busy.Wait()
	if why := e.broken.Load(); why != nil {
		t.Fatal(*why)
	}
	require.Zero(t, e.queue.Waiting())
	require.Empty(t, e.queue.keys)
	for _, n := range []*atomic.Int64{
		&e.grants, &e.handedOver, &e.refused, &e.gaveUp, &e.unreserved,
	} {
		require.NotZero(t, n.Load())
	}
	t.Logf("%d grants, %d handed over, %d refused, %d gave up, %d reservations", e.grants.Load(),
		e.handedOver.Load(), e.refused.Load(), e.gaveUp.Load(), e.unreserved.Load())
}

// heedless is a caller that makes nothing of news.
type heedless struct{}

func (heedless) Notify(News) {}

// The goal: a call may leave the queue while another goroutine tells it that its key was released.
func TestQueue_AContenderIsToldWhileItLeaves(t *testing.T) {
	var q Queue
	keys := []string{"a"}
	ended := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				if c := q.Contender(keys); c != nil {
					runtime.Gosched()
					c.Caller.Notify(Released)
				}
			}
		}
	})
	for range 5000 {
		c := &Call{Caller: heedless{}}
		_, _ = q.Enter(c, keys, unlimited)
		q.Contend(c, "a", false)
		runtime.Gosched()
		require.True(t, q.GiveUp(c))
	}
	close(ended)
	all.Wait()
}

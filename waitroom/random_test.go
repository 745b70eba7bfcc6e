package waitroom

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dumb is the queue as a single list that is searched from the beginning for everything.
type dumb struct {
	queue     []*guest // in the order of Enter
	heldUntil map[*guest]time.Time
	offers    map[*guest]any
	woken     map[*guest]int
}

// head is who waits for a key and came before all others that do; nil: nobody.
func (d *dumb) head(key string) *guest {
	for _, g := range d.queue {
		if slices.Contains(g.keys, key) {
			return g
		}
	}
	return nil
}

func (d *dumb) leave(g *guest, until time.Time) (offer any) {
	offer = d.offers[g]
	if offer != nil {
		until = time.Time{}
	}
	var heads []*guest
	for _, k := range g.keys {
		heads = append(heads, d.head(k))
	}
	before := dumbFirsts(d.queue)
	d.queue = slices.DeleteFunc(d.queue, func(other *guest) bool { return other == g })
	for i, k := range g.keys {
		if successor := d.head(k); heads[i] == g && successor != nil && (until.IsZero() ||
			until.After(d.heldUntil[successor])) {
			d.heldUntil[successor] = until
		}
	}
	for _, successor := range dumbFirsts(d.queue) {
		if !slices.Contains(before, successor) {
			d.woken[successor]++
		}
	}
	delete(d.heldUntil, g)
	delete(d.offers, g)
	return offer
}

func (d *dumb) give(list []string, offer any) bool {
	for _, g := range dumbFirsts(d.queue) {
		if d.offers[g] == nil && slices.Equal(slices.Sorted(slices.Values(g.keys)),
			slices.Sorted(slices.Values(list))) {
			d.offers[g] = offer
			d.woken[g]++
			return true
		}
	}
	return false
}

func (d *dumb) notify(list []string) {
	first := dumbFirsts(d.queue)
	for _, k := range list {
		if g := d.head(k); g != nil {
			delete(d.heldUntil, g)
			if slices.Contains(first, g) {
				d.woken[g] = max(d.woken[g], 1)
			}
		}
	}
}

// someKeys returns between one and three of so many, in no order.
func someKeys(r *rand.Rand, of int) []string {
	list := keys("abcdefghijklmnop"[:of])
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:1+r.IntN(3)]
}

// The goal: after any sequence of operations, the queue answers as a version that searches one list
// for everything, wakes the same waiters, and has the same HeldUntil for them.
func TestQueue_AgainstADumbVersion(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var queue Queue
		d := &dumb{
			heldUntil: map[*guest]time.Time{}, offers: map[*guest]any{}, woken: map[*guest]int{},
		}
		var all []*guest
		for range 12 {
			g := new(guest)
			g.Wake = func() { g.woken++ }
			all = append(all, g)
		}
		for step := range 2000 {
			g := all[r.IntN(len(all))]
			waits := slices.Contains(d.queue, g)
			switch n := r.IntN(10); {
			case !waits:
				g.keys = someKeys(r, 5)
				ok := queue.Enter(&g.Waiter, g.keys, 10)
				require.Equal(t, len(d.queue) < 10, ok)
				if ok {
					d.queue = append(d.queue, g)
				}
			case n < 4:
				until := []time.Time{{}, at(1), at(2), at(3)}[r.IntN(4)]
				require.Equal(t, d.leave(g, until), queue.Leave(&g.Waiter, until),
					"seed %d, step %d", seed, step)
			case n < 6:
				list := someKeys(r, 6)
				if r.IntN(2) == 0 {
					list = slices.Clone(g.keys)
					slices.Reverse(list)
				}
				require.Equal(t, d.give(list, step), queue.Offer(list, step), "seed %d, step %d",
					seed, step)
			case n < 8:
				require.Equal(t, d.offers[g], queue.Accept(&g.Waiter), "seed %d, step %d", seed,
					step)
				delete(d.offers, g)
			default:
				list := someKeys(r, 6)
				d.notify(list)
				queue.NotifyFree(list, time.Time{})
			}
			compare(t, d, &queue, all)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func compare(t *testing.T, d *dumb, queue *Queue, all []*guest) {
	t.Helper()
	first := dumbFirsts(d.queue)
	for i, g := range all {
		if want, got := slices.Contains(first, g), queue.First(&g.Waiter); want != got {
			t.Errorf("%d is first: %t, the dumb version says %t", i, got, want)
		}
		if want, got := d.heldUntil[g], queue.HeldUntil(&g.Waiter); !want.Equal(got) {
			t.Errorf("%d has HeldUntil %v, the dumb version says %v", i, got, want)
		}
		if want, got := min(d.woken[g], 1), min(g.woken, 1); want != got {
			t.Errorf("%d was woken: %d, the dumb version says %d", i, got, want)
		}
		g.woken = 0
	}
	clear(d.woken)
	for _, k := range keys("abcdef") {
		if want, got := d.head(k) != nil, queue.HasWaiters(k); want != got {
			t.Errorf("somebody waits for %s: %t, the dumb version says %t", k, got, want)
		}
	}
	if queue.Waiting() != len(d.queue) {
		t.Errorf("%d wait, the dumb version says %d", queue.Waiting(), len(d.queue))
	}
}

// stress is what the goroutines of the stress test share.
type stress struct {
	queue   Queue
	holders [8]atomic.Int64 // who of those that were first is at work with a key; 0: nobody
	// How often each offer went to one owner: taken, returned, or kept by the giver.
	offers []atomic.Int32
	made   atomic.Int64 // offers
	firsts atomic.Int64 // how often somebody was first
	taken  atomic.Int64
	back   atomic.Int64 // offers that Leave returned
	broken atomic.Pointer[string]
}

func (s *stress) fail(why string) { s.broken.CompareAndSwap(nil, &why) }

// work claims the keys of one that is first, and lets them go again: if another is at work with one
// of them, two are first.
func (s *stress) work(id int64, list []string) {
	for _, k := range list {
		if !s.holders[k[0]-'a'].CompareAndSwap(0, id) {
			s.fail("two are first for one key")
		}
	}
	s.firsts.Add(1)
	if id%2 == 0 {
		runtime.Gosched()
	}
	for _, k := range list {
		s.holders[k[0]-'a'].Store(0)
	}
}

// pass offers what a waiter has to the one that is first now, or ends it.
func (s *stress) pass(list []string, offer int64) {
	if !s.queue.Offer(list, offer) {
		s.offers[offer].Add(1)
		s.queue.NotifyFree(list, time.Time{})
	}
}

// wait waits until w is first; it has nothing but its wakes to go by.
func (s *stress) wait(w *Waiter, woken <-chan struct{}) bool {
	for !s.queue.First(w) {
		select {
		case <-woken:
		case <-time.After(20 * time.Second):
			s.fail("a wake-up was lost")
			return false
		}
	}
	return true
}

// once is one round of one goroutine.
func (s *stress) once(r *rand.Rand, id int64, w *Waiter, woken <-chan struct{}, list []string) {
	if !s.queue.Enter(w, list, unlimited) {
		s.fail("refused")
	}
	if r.IntN(4) > 0 && s.wait(w, woken) {
		s.work(id, list)
		if r.IntN(2) == 0 {
			s.queue.NotifyFree(list, time.Time{})
		}
	}
	if r.IntN(4) == 0 {
		runtime.Gosched() // time for a offer
	}
	var have int64
	if r.IntN(2) == 0 {
		if offer, ok := s.queue.Accept(w).(int64); ok {
			s.taken.Add(1)
			have = offer
		}
	}
	back, returned := s.queue.Leave(w, at(r.IntN(3))).(int64)
	if s.queue.Leave(w, at(9)) != nil {
		s.fail("a offer came back twice")
	}
	switch {
	case have != 0 && returned: // two offers in a row; the first one ends here
		s.offers[have].Add(1)
		fallthrough
	case returned:
		s.back.Add(1)
		s.pass(list, back)
	case have != 0 && r.IntN(2) == 0:
		s.offers[have].Add(1)
	case have != 0:
		s.pass(list, have)
	case r.IntN(2) == 0:
		s.pass(list, s.made.Add(1))
	}
}

// The goal: with many goroutines that enter, leave, give and take, at most one is first for a key,
// everybody becomes first with nothing but wakes to go by, and no offer is lost or doubled.
func TestQueue_NothingIsLostUnderLoad(t *testing.T) {
	const goroutines, each = 8, 4000 // rounds of some three operations
	s := &stress{offers: make([]atomic.Int32, goroutines*each+1)}
	var all sync.WaitGroup
	for n := range goroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			woken := make(chan struct{}, 1)
			w := &Waiter{Wake: func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			}}
			for range each {
				if s.broken.Load() != nil {
					return
				}
				s.once(r, int64(n+1), w, woken, someKeys(r, 3+r.IntN(2)))
			}
		})
	}
	all.Wait()
	if why := s.broken.Load(); why != nil {
		t.Fatal(*why)
	}
	require.Zero(t, s.queue.Waiting())
	require.Empty(t, s.queue.heads)
	for i := int64(1); i <= s.made.Load(); i++ {
		require.Equal(t, int32(1), s.offers[i].Load(), "offer %d of %d", i, s.made.Load())
	}
	require.NotZero(t, s.taken.Load())
	require.NotZero(t, s.back.Load())
	t.Logf("%d times first, %d offers, %d times taken, %d times returned", s.firsts.Load(),
		s.made.Load(), s.taken.Load(), s.back.Load())
}

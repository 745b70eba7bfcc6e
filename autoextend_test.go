package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

const (
	autoTTL = 10 * time.Second
)

// ending is what OnLost was told of one lease.
type ending struct {
	lease *lockpipe.Lease
	err   error
	at    time.Time
}

// endings is what OnLost was told, in order.
type endings struct {
	mu   sync.Mutex
	list []ending // guarded by mu
}

// tell is an OnLost.
func (e *endings) tell(l *lockpipe.Lease, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ending{l, err, time.Now()})
}

func (e *endings) all() []ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]ending{}, e.list...)
}

// of is what was told of one lease.
func (e *endings) of(l *lockpipe.Lease) (told []ending) {
	for _, end := range e.all() {
		if end.lease == l {
			told = append(told, end)
		}
	}
	return told
}

// onLost changes what is called when a lease is over.
func onLost(f func(*lockpipe.Lease, error)) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.OnLost = f }
}

// auto is for a lease that is extended by itself.
func auto(ttl, maxHold time.Duration) []lockpipe.Option {
	return []lockpipe.Option{lockpipe.WithTTL(ttl), lockpipe.WithAutoExtend(maxHold)}
}

// heldEverywhere wants the lease's key on each node, for a while to come.
func heldEverywhere(t *testing.T, v *virtual, l *lockpipe.Lease) {
	t.Helper()
	lasting(t, l)
	for i := range v.nodes {
		require.Equal(t, l.Token(), v.get(i, l.Key()), "node %d", i)
		require.Positive(t, v.ttl(i, l.Key()), "node %d", i)
	}
}

// The goal: a lease that is extended by itself is held on all nodes until exactly maxHold after it
// was asked for, however its TTL and maxHold are to each other, says then that maxHold is why, and
// leaves nothing on the nodes.
func TestAutoExtendHoldsUntilMaxHold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		n            int
		ttl, maxHold time.Duration
		extended     bool
		within       time.Duration // after which nothing is left on the nodes
	}{
		"one node":                     {1, autoTTL, 3 * time.Minute, true, 0},
		"three nodes":                  {3, autoTTL, 10 * time.Minute, true, 0},
		"five nodes":                   {5, autoTTL, 3 * time.Minute, true, 0},
		"a short TTL":                  {3, 200 * time.Millisecond, 20 * time.Second, true, 0},
		"the longest TTL":              {3, time.Minute, 10 * time.Minute, true, 0},
		"a TTL as long as maxHold":     {3, autoTTL, autoTTL, true, 0},
		"a TTL a little above maxHold": {3, autoTTL, autoTTL - time.Millisecond, true, 0},
		"a TTL longer than maxHold": {
			3, autoTTL, 5 * time.Second, false,
			100 * time.Millisecond,
		},
		"a TTL much longer than maxHold": {
			3, time.Minute, 10 * time.Millisecond, false,
			20 * time.Millisecond,
		},
		"maxHold in parts of millisecond": {
			3, autoTTL, time.Minute + 123456*time.Nanosecond, true,
			0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told endings
			inBubble(t, test.n, func(t *testing.T, v *virtual, c *lockpipe.Client) {
				begin := time.Now()
				l := v.hold(t, c, "k", auto(test.ttl, test.maxHold)...)
				for step := test.maxHold / 100; time.Since(begin)+step < test.maxHold; {
					time.Sleep(step)
					heldEverywhere(t, v, l)
					require.False(t, l.Until().After(begin.Add(test.maxHold)),
						"Until is beyond maxHold")
				}
				<-l.Done()
				require.Equal(t, test.maxHold, time.Since(begin))
				over(t, l, lockpipe.ErrExpired)
				require.NotErrorIs(t, l.Err(), lockpipe.ErrLost)
				require.ErrorContains(t, context.Cause(l.Context()), "maxHold")
				time.Sleep(test.within)
				v.nothingLeft(t)
				require.Equal(t, test.extended, c.Stats().Extended > 0)
				require.Equal(t, []ending{{l, l.Err(), begin.Add(test.maxHold)}}, told.all())
			}, onLost(told.tell))
		})
	}
}

// The goal: a maxHold that makes no sense is refused by every call before anything is sent, and the
// least that does is taken.
func TestAMaxHoldThatMakesNoSenseIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		for _, maxHold := range []time.Duration{
			0, -1, -time.Hour, math.MinInt64, 1,
			10*time.Millisecond - 1,
		} {
			for call, acquire := range acquiring {
				err := acquire(t.Context(), c, []string{"k"}, lockpipe.WithMaxAttempts(1),
					lockpipe.WithAutoExtend(maxHold))
				require.ErrorIs(t, err, lockpipe.ErrInvalid, "%s, %v", call, maxHold)
				require.ErrorContains(t, err, "WithAutoExtend("+maxHold.String()+")", call)
				require.ErrorContains(t, err, "10ms", call)
			}
		}
		synctest.Wait()
		require.Zero(t, c.Stats().Operations)
		require.Zero(t, v.executedOnAll("SET")+v.executedOnAll("EVALSHA")+v.executedOnAll("DELEX"))
		for _, maxHold := range []time.Duration{10 * time.Millisecond, math.MaxInt64} {
			l := v.hold(t, c, "k", auto(autoTTL, maxHold)...)
			require.NoError(t, l.Release(t.Context()))
			synctest.Wait()
		}
	})
}

// The goal: an automatic extension that fails on a majority, or hangs there, is tried again and
// keeps the lease when the nodes recover before the last confirmed time has run out.
func TestAutoExtend_AFailedExtensionIsRetriedInTime(t *testing.T) {
	t.Parallel()
	faults := map[string]func(v *virtual, i int){
		"OOM":     func(v *virtual, i int) { v.fail(i, outOfMemory) },
		"BUSY":    func(v *virtual, i int) { v.fail(i, "BUSY Redis is busy running a script.") },
		"unknown": func(v *virtual, i int) { v.fail(i, "ERR whatever") },
		"silent":  func(v *virtual, i int) { v.silence(i) },
	}
	for name, strike := range faults {
		for n, left := range map[int]time.Duration{3: 50 * time.Millisecond, 5: time.Second} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var told endings
				inBubble(t, n, func(t *testing.T, v *virtual, c *lockpipe.Client) {
					l := v.hold(t, c, "k", auto(autoTTL, time.Hour)...)
					for range 5 {
						synctest.Wait()
						until := l.Until()
						for i := range n/2 + 1 {
							strike(v, i)
						}
						time.Sleep(time.Until(until) - left)
						require.Equal(t, until, l.Until(), "nothing was confirmed")
						v.heal(span(0, n)...)
						v.speak(span(0, n)...)
						time.Sleep(left)
						lasting(t, l)
					}
					time.Sleep(autoTTL)
					heldEverywhere(t, v, l)
					require.NoError(t, l.Release(t.Context()))
					v.nothingLeft(t)
					require.Empty(t, told.all())
				}, onLost(told.tell), timeout(100*time.Millisecond))
			})
		}
	}
}

// The goal: while the extensions of a majority hang, the holder is told exactly at the end of the
// last confirmed validity, once, and as a loss; when the nodes go on, however late, nothing stays
// there of what they were sent.
func TestAHungExtensionIsALossAtTheLastConfirmedDeadline(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		n, silent int
		confirmed time.Duration // how long all goes well
		later     time.Duration // how long after the loss the nodes go on
	}{
		"two of three, before the first extension": {3, 2, 0, time.Second},
		"two of three":          {3, 2, time.Minute, time.Second},
		"all of three":          {3, 3, time.Minute, 0},
		"three of five":         {5, 3, 25 * time.Second, 30 * time.Second},
		"all of five, for long": {5, 5, time.Minute, 3 * time.Minute},
		"one of one, for long":  {1, 1, time.Minute, 3 * time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told endings
			inBubble(t, test.n, func(t *testing.T, v *virtual, c *lockpipe.Client) {
				l := v.hold(t, c, "k", auto(autoTTL, time.Hour)...)
				time.Sleep(test.confirmed)
				synctest.Wait()
				lasting(t, l)
				deadline := l.Until()
				v.silence(span(0, test.silent)...)
				<-l.Done()
				require.Equal(t, deadline, time.Now())
				over(t, l, lockpipe.ErrLost)
				require.NotErrorIs(t, l.Err(), lockpipe.ErrExpired)
				require.Positive(t, v.hanging(0), "the extension hangs")
				synctest.Wait()
				require.Equal(t, []ending{{l, l.Err(), deadline}}, told.all())
				time.Sleep(test.later)
				v.speak(span(0, test.silent)...)
				time.Sleep(time.Second) // where a connection was given up it comes back first
				v.nothingLeft(t)
				time.Sleep(time.Minute)
				v.nothingLeft(t)
				require.Len(t, told.all(), 1)
				require.Equal(t, uint64(1), c.Stats().Lost)
			}, onLost(told.tell), timeout(200*time.Millisecond))
		})
	}
}

// The goal: a minority that is silent for ever, or always fails, costs nobody the lease, and is
// released when it goes on.
func TestASilentMinorityCostsNoLease(t *testing.T) {
	t.Parallel()
	for n, bad := range map[int]int{3: 1, 4: 1, 5: 2} {
		for name, strike := range map[string]func(v *virtual, which ...int){
			"silent": (*virtual).silence,
			"failing": func(v *virtual, which ...int) {
				for _, i := range which {
					v.fail(i, readOnly)
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var told endings
				inBubble(t, n, func(t *testing.T, v *virtual, c *lockpipe.Client) {
					l := v.hold(t, c, "k", auto(autoTTL, 24*time.Hour)...)
					strike(v, span(0, bad)...)
					for range 30 {
						time.Sleep(autoTTL)
						lasting(t, l)
						for i := bad; i < n; i++ {
							require.Equal(t, l.Token(), v.get(i, "k"))
						}
					}
					require.NoError(t, l.Release(t.Context()))
					synctest.Wait() // the minority was sent it
					v.heal(span(0, bad)...)
					v.speak(span(0, bad)...)
					time.Sleep(time.Second)
					v.nothingLeft(t)
					require.Empty(t, told.all())
					require.Zero(t, c.Stats().Lost)
				}, onLost(told.tell), timeout(200*time.Millisecond))
			})
		}
	}
}

// lifeline is what happened to one key on one node.
type lifeline struct {
	moves   int       // how often it was set, or its TTL
	last    time.Time // when it was the last time
	deleted bool
	revived int // moves after it was deleted
}

// lifelines follows all keys on all nodes.
type lifelines struct {
	mu sync.Mutex
	of map[string][]lifeline // by key, with the prefix; guarded by mu
	n  int
}

func follow(v *virtual) *lifelines {
	f := &lifelines{of: map[string][]lifeline{}, n: len(v.nodes)}
	v.watch(f.see)
	return f
}

func (f *lifelines) see(i int, command string, args []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch command {
	case "DEL":
		for _, key := range args {
			f.at(key, i).deleted = true
		}
	case "DELEX":
		f.at(args[0], i).deleted = true
	case "SET", "PEXPIRE":
		on := f.at(args[0], i)
		on.moves++
		on.last = time.Now()
		if on.deleted {
			on.revived++
		}
	}
}

// at is where to write down; mu is held.
func (f *lifelines) at(key string, i int) *lifeline {
	if f.of[key] == nil {
		f.of[key] = make([]lifeline, f.n)
	}
	return &f.of[key][i]
}

// forget begins a key anew.
func (f *lifelines) forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[prefix+key] = make([]lifeline, f.n)
}

// key is what happened to a key so far, by node.
func (f *lifelines) key(key string) []lifeline {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]lifeline{}, f.of[prefix+key]...)
}

// racing is one way for extensions to get in the way of a release.
type racing struct {
	extends     int // concurrent calls of Extend, beside the automatic extension
	nodeTimeout time.Duration
	waves       int
}

// raceLatency is the longest way to a node, and back; raceTTL is long beside it, so that no lease
// is lost.
const (
	raceLatency = 50 * time.Millisecond
	raceTTL     = time.Second
)

// The goal: a release is the last word of a lease, whatever automatic and explicit extensions are
// under way. Once it is confirmed, a quorum of nodes is free for good; on no node does the key come
// back, or its TTL move, after it was deleted there; and what was on its way to a minority is
// followed by its release at once.
func TestAReleaseIsTheLastWord(t *testing.T) {
	t.Parallel()
	tests := map[string]racing{
		"one Extend, patient":    {1, 10 * time.Second, 46},
		"one Extend, impatient":  {1, 40 * time.Millisecond, 4},
		"two Extends, patient":   {2, 10 * time.Second, 46},
		"two Extends, impatient": {2, 40 * time.Millisecond, 4},
	}
	const together = 100 // 10,000 releases in all waves of all tests
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual(t, 3)
				v.latency(raceLatency)
				c := v.client(t, timeout(test.nodeTimeout))
				f := follow(v)
				raced := 0
				for wave := range test.waves {
					problems := make([]string, together)
					crossed := make([]bool, together)
					var races sync.WaitGroup
					for i := range together {
						races.Go(func() {
							crossed[i], problems[i] = test.race(v, c, f,
								fmt.Sprint(wave, ":", i))
						})
					}
					races.Wait()
					for i := range together {
						require.Empty(t, problems[i], "%d:%d", wave, i)
						if crossed[i] {
							raced++
						}
					}
				}
				require.Greater(t, raced, test.waves*together/20,
					"too few extensions were under way when the release came")
			})
		})
	}
}

// race releases one lease while it is extended. It reports whether an extension came to a node
// after the release began, and what went wrong, if anything.
func (r racing) race(v *virtual, c *lockpipe.Client, f *lifelines, key string) (crossed bool,
	problem string,
) {
	ctx := context.Background()
	l, err := c.Acquire(ctx, key, auto(raceTTL, time.Hour)...)
	if err != nil {
		return false, fmt.Sprint("Acquire: ", err)
	}
	time.Sleep(4 * raceLatency) // all nodes have it, and nothing of an earlier attempt
	f.forget(key)
	var extends sync.WaitGroup
	failed := make([]error, r.extends)
	for i := range r.extends {
		extends.Go(func() {
			time.Sleep(rand.N(raceTTL / 2))
			if err := l.Extend(ctx, raceTTL/2+rand.N(raceTTL)); err != nil &&
				!anyOf(err, lockpipe.ErrReleased, lockpipe.ErrNoQuorum) {
				failed[i] = err
			}
		})
	}
	time.Sleep(rand.N(raceTTL / 2))
	began := f.key(key)
	for err = l.Release(ctx); errors.Is(err, lockpipe.ErrNoQuorum); err = l.Release(ctx) {
		time.Sleep(time.Millisecond) // impatient
	}
	if err != nil {
		return false, fmt.Sprint("Release: ", err)
	}
	confirmed, at := f.key(key), time.Now()
	extends.Wait()
	time.Sleep(4 * raceLatency)
	for i := range v.nodes {
		if v.get(i, key) != "" {
			problem += fmt.Sprintf("node %d: still there; ", i)
		}
	}
	time.Sleep(3 * raceTTL)
	final, free := f.key(key), 0
	for i := range v.nodes {
		crossed = crossed || final[i].moves > began[i].moves
		if confirmed[i].deleted || confirmed[i].moves == 0 {
			// An impatient acquire may have left a node out.
			free++
		}
		switch moved := final[i].moves - confirmed[i].moves; {
		case final[i].revived > 0:
			problem += fmt.Sprintf("node %d: %d moves after it was deleted; ", i, final[i].revived)
		case moved > 1, moved == 1 && final[i].last.Sub(at) > 2*raceLatency:
			problem += fmt.Sprintf("node %d: %d moves, the last %v after the confirmation; ", i,
				moved, final[i].last.Sub(at))
		case final[i].moves > 0 && !final[i].deleted:
			problem += fmt.Sprintf("node %d: never deleted; ", i)
		}
	}
	if free < 2 {
		problem += fmt.Sprintf("only %d nodes were free when the release was confirmed; ", free)
	}
	return crossed, problem + errorText(errors.Join(failed...))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

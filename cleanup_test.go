package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// shape is one kind of acquiring call: its keys begin with name, and it gives back what it got, and
// the error of all that it did not get.
type shape func(ctx context.Context, c *lockpipe.Client, name string,
	opts ...lockpipe.Option) ([]*lockpipe.Lease, error)

// shapes differ in what is sent: one SET, one script call, more than fit into one, and many claims.
var shapes = map[string]shape{
	"one": func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) ([]*lockpipe.Lease, error) {
		return alone(c.TryAcquire(ctx, name+":0", opts...))
	},
	"waiting": func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) ([]*lockpipe.Lease, error) {
		return alone(c.Acquire(ctx, name+":0", opts...))
	},
	"three":   all(3),
	"600":     all(600),
	"each 3":  each(3),
	"each 60": each(60),
}

func alone(l *lockpipe.Lease, err error) ([]*lockpipe.Lease, error) {
	return []*lockpipe.Lease{l},
		err
}

func all(n int) shape {
	return func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) ([]*lockpipe.Lease, error) {
		return alone(c.TryAcquireAll(ctx, keysOf(name, n), opts...))
	}
}

func each(n int) shape {
	return func(ctx context.Context, c *lockpipe.Client, name string,
		opts ...lockpipe.Option,
	) (got []*lockpipe.Lease, err error) {
		for _, r := range c.TryAcquireEach(ctx, keysOf(name, n), opts...) {
			got, err = append(got, r.Lease), errors.Join(err, r.Err)
		}
		return got, err
	}
}

func keysOf(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%d", name, i)
	}
	return keys
}

// Goal: an attempt that a majority refuses leaves nothing on the minority that granted, nor a part
// of its keys anywhere.
func TestARefusedAttemptLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	c := connected(t, newClient(t, nodes))
	for i := range 3 {
		do(t, nodes, i, "SET", prefix+"key:0", "another", "PX", "600000")
	}
	for name, acquire := range shapes {
		got, err := acquire(t.Context(), c, "key", lockpipe.WithMaxAttempts(3))
		require.ErrorIs(t, err, lockpipe.ErrHeld, name)
		require.NoError(t, c.ReleaseAll(t.Context(), got...), name)
	}
	// The last part is refused, after the others were granted.
	_, err := c.TryAcquireAll(t.Context(), append(keysOf("key", 600)[1:], "key:0"))
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes, 3, 4)
	nothingOfOurs(t, nodes, span(0, 3), "key:0")
}

// interruption is one way for a call to end while nodes have not answered.
type interruption struct {
	nodeTimeout time.Duration
	// Of the caller's ctx, when the healthy node has granted; nil where it does not end.
	ends    error
	givenUp bool // the client gives up the silent connections before they speak again
	want    []error
	notWant []error
}

var interruptions = map[string]interruption{
	"cancelled": {
		nodeTimeout: 10 * time.Second, ends: context.Canceled,
		want: []error{context.Canceled, lockpipe.ErrNoQuorum}, notWant: []error{
			lockpipe.ErrHeld,
			context.DeadlineExceeded,
		},
	},
	"cancelled, and connections given up": {
		nodeTimeout: 10 * time.Second, ends: context.Canceled, givenUp: true,
		want: []error{context.Canceled, lockpipe.ErrNoQuorum}, notWant: []error{
			lockpipe.ErrHeld,
			context.DeadlineExceeded,
		},
	},
	"deadline": {
		nodeTimeout: 10 * time.Second, ends: context.DeadlineExceeded,
		want:    []error{context.DeadlineExceeded, lockpipe.ErrNoQuorum},
		notWant: []error{lockpipe.ErrHeld, context.Canceled},
	},
	"node timeout": {
		nodeTimeout: 200 * time.Millisecond,
		want:        []error{lockpipe.ErrNoQuorum}, notWant: []error{
			lockpipe.ErrHeld,
			context.DeadlineExceeded, context.Canceled,
		},
	},
	"connections given up": {
		nodeTimeout: 10 * time.Second, givenUp: true,
		want: []error{lockpipe.ErrNoQuorum}, notWant: []error{
			lockpipe.ErrHeld,
			context.DeadlineExceeded, context.Canceled,
		},
	},
}

// Goal: however a call ends while a majority is silent, no node keeps anything of it when it speaks
// again, also not what it was sent on a connection that is gone, and whoever comes next finds the
// keys free.
func TestAnInterruptedCallLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, in := range interruptions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interrupted(t, in)
		})
	}
}

// result is what a call of a shape gave.
type result struct {
	got []*lockpipe.Lease
	err error
}

func interrupted(t *testing.T, in interruption) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, timeout(in.nodeTimeout)))
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	ctx := &endingContext{t.Context(), make(chan struct{}), in.ends}
	ends := map[string]<-chan result{}
	for name, acquire := range shapes {
		ends[name] = later(func() result {
			got, err := acquire(ctx, c, name, lockpipe.WithMaxAttempts(1))
			return result{got, err}
		})
	}
	if in.ends != nil {
		for name := range shapes {
			eventually(t, func() bool {
				v, err := nodes.Do(2, "EXISTS", prefix+name+":0")
				return err == nil && v == int64(1)
			}, "the healthy node does not grant %s", name)
		}
		close(ctx.done)
	}
	for name, end := range ends {
		r := receive(t, end, "the call does not end: "+name)
		for _, l := range r.got {
			require.Nil(t, l, name)
		}
		for _, want := range in.want {
			require.ErrorIs(t, r.err, want, name)
		}
		for _, notWant := range in.notWant {
			require.NotErrorIs(t, r.err, notWant, name)
		}
	}
	nothingLeft(t, nodes, 2)
	if in.givenUp {
		eventually(t, func() bool {
			all := c.Nodes()
			return all[0].State != lockpipe.NodeUp && all[1].State != lockpipe.NodeUp
		}, "the silent connections are not given up")
	}
	require.NoError(t, nodes.Thaw(0))
	require.NoError(t, nodes.Thaw(1))
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
	next := connected(t, newClient(t, nodes))
	for name, acquire := range shapes {
		got, err := acquire(t.Context(), next, name, lockpipe.WithMaxAttempts(1))
		require.NoError(t, err, name)
		require.NoError(t, next.ReleaseAll(t.Context(), got...), name)
	}
	nothingLeft(t, nodes)
}

// endingContext ends with err when done is closed: a deadline that the machine cannot miss.
type endingContext struct {
	context.Context
	done chan struct{}
	err  error
}

func (c *endingContext) Done() <-chan struct{} { return c.done }

func (c *endingContext) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Goal: connections that are killed in the middle of a load cost some calls their quorum, and
// nothing else: nothing is lost, and nothing is left.
func TestConnectionsKilledUnderLoadLeaveNothing(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	load := startLoad(t, c, 16, func(string) string { return fmt.Sprint("shared:", rand.N(20)) })
	for round := range 30 {
		load.goesOn(t, 20)
		do(t, nodes, round%nodes.Len(), "CLIENT", "KILL", "TYPE", "normal")
		if round%5 == 0 { // a majority at once
			do(t, nodes, (round+1)%nodes.Len(), "CLIENT", "KILL", "TYPE", "normal")
		}
	}
	for _, err := range load.stop() {
		require.True(t, anyOf(err, lockpipe.ErrHeld, lockpipe.ErrNoQuorum), "%v", err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, anyOf(err, lockpipe.ErrLost, lockpipe.ErrExpired, lockpipe.ErrInvalid,
			lockpipe.ErrOverloaded), "%v", err)
	}
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// Goal: a server that forgets the scripts under load is told them again, and no caller notices.
func TestForgottenScriptsAreNotNoticed(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	load := startLoad(t, c, 16, func(name string) string { return name })
	for range 10 {
		load.goesOn(t, 20)
		for i := range nodes.Len() {
			do(t, nodes, i, "SCRIPT", "FLUSH")
		}
	}
	for _, err := range load.stop() {
		require.NoError(t, err)
	}
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// load is a number of workers that acquire, extend and release in all shapes.
type load struct {
	ended   atomic.Bool
	rounds  atomic.Int64
	workers sync.WaitGroup

	mu   sync.Mutex
	errs []error // guarded by mu
}

// startLoad starts workers; key makes a key's name of a worker's name.
func startLoad(t *testing.T, c *lockpipe.Client, workers int, key func(name string) string) *load {
	w := &load{}
	for i := range workers {
		w.workers.Go(func() {
			name := fmt.Sprint("worker:", i)
			for n := i; !w.ended.Load(); n++ {
				w.round(context.Background(), c, key(name), n)
			}
		})
	}
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *load) round(ctx context.Context, c *lockpipe.Client, key string, n int) {
	kinds := []shape{shapes["one"], shapes["three"], shapes["each 3"], shapes["one"], all(300)}
	got, err := kinds[n%len(kinds)](ctx, c, key)
	if err != nil {
		w.failed(err)
	}
	for i, l := range got {
		if l != nil && i%2 == n%2 {
			if err := l.Extend(ctx, longTTL); err != nil {
				w.failed(err)
			}
		}
	}
	if err := c.ReleaseAll(ctx, got...); err != nil {
		w.failed(err)
	}
	w.rounds.Add(1)
}

func (w *load) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

// goesOn returns after so many further rounds.
func (w *load) goesOn(t *testing.T, rounds int64) {
	t.Helper()
	until := w.rounds.Load() + rounds
	eventually(t, func() bool { return w.rounds.Load() >= until }, "the load stands still")
}

// stop ends the load and returns all errors.
func (w *load) stop() []error {
	w.ended.Store(true)
	w.workers.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errs
}

// Goal: Close lets the calls that are under way end with ErrClosed, and leaves nothing of them or
// of what they held.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	for i := range nodes.Len() {
		do(t, nodes, i, "SET", prefix+"key:0", "another", "PX", "600000")
	}
	waiting := make([]<-chan error, 8)
	for i := range waiting {
		waiting[i] = later(func() error {
			_, err := c.Acquire(context.Background(), "key:0")
			return err
		})
	}
	load := startLoad(t, c, 8, func(name string) string { return name })
	load.goesOn(t, 20)
	require.NoError(t, c.Close(t.Context()))
	for _, end := range waiting {
		require.ErrorIs(t, receive(t, end, "a call goes on after Close"), lockpipe.ErrClosed)
	}
	for _, err := range load.stop() {
		require.ErrorIs(t, err, lockpipe.ErrClosed)
	}
	nothingOfOurs(t, nodes, span(0, 3), "key:0")
	require.NoError(t, c.Close(t.Context()), "a second Close")
}

// Goal: Close while calls are pending on silent nodes ends them, and when the nodes speak again
// before Close has to give up, nothing is left there.
func TestCloseWhileCallsArePendingLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, timeout(200*time.Millisecond)))
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	pending := map[string]<-chan result{}
	for name, acquire := range shapes {
		pending[name] = later(func() result {
			got, err := acquire(context.Background(), c, name)
			return result{got, err}
		})
		eventually(t, func() bool {
			v, err := nodes.Do(2, "EXISTS", prefix+name+":0")
			return err == nil && v == int64(1) || len(pending[name]) > 0
		}, "the healthy node does not grant %s", name)
	}
	closed := later(func() error { return c.Close(t.Context()) })
	for name, end := range pending {
		r := receive(t, end, "a call goes on after Close: "+name)
		require.True(t, anyOf(r.err, lockpipe.ErrClosed, lockpipe.ErrNoQuorum), "%s: %v", name,
			r.err)
		for _, l := range r.got {
			require.Nil(t, l, name)
		}
	}
	require.NoError(t, nodes.Thaw(0))
	require.NoError(t, nodes.Thaw(1))
	require.NoError(t, receive(t, closed, "Close does not return"))
	nothingLeft(t, nodes)
}

// Goal: Close deletes what is held, tells the holders ErrClosed, and everything that comes later.
func TestCloseReleasesWhatIsHeld(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	c := connected(t, newClient(t, nodes))
	var leases []*lockpipe.Lease
	for name, acquire := range shapes {
		got, err := acquire(t.Context(), c, name)
		require.NoError(t, err)
		leases = append(leases, got...)
	}
	released := try(t, c, "released")
	require.NoError(t, released.Release(t.Context()))
	ctx := leases[0].Context()
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrClosed)
	for _, l := range leases {
		over(t, l, lockpipe.ErrClosed)
		require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrClosed)
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrClosed)
	}
	over(t, released, lockpipe.ErrReleased)
	require.NoError(t, released.Release(t.Context()))
	for i := range nodes.Len() { // Close has the answers, so there is nothing to wait for
		keys, err := ownKeys(nodes, i)
		require.NoError(t, err)
		require.Empty(t, keys)
	}
	for call, acquire := range acquiring {
		require.ErrorIs(t, acquire(t.Context(), c, []string{"k"}), lockpipe.ErrClosed, call)
	}
	require.NoError(t, c.Close(t.Context()))
}

// Goal: Close with a silent or dead minority still deletes on all others, and is no error.
func TestCloseReleasesWhatIsHeldThoughAMinorityIsGone(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*lockpipetest.Nodes,
		int) error{"frozen": (*lockpipetest.Nodes).Freeze, "killed": (*lockpipetest.Nodes).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := lockpipetest.StartRealT(t, 3)
			c := connected(t, newClient(t, nodes))
			l, err := c.TryAcquireAll(t.Context(), keysOf("key", 3))
			require.NoError(t, err)
			onEvery(t, nodes, span(0, 3), "key:0", l.Token())
			require.NoError(t, strike(nodes, 2))
			require.NoError(t, c.Close(t.Context()))
			over(t, l, lockpipe.ErrClosed)
			nothingLeft(t, nodes, 0, 1)
		})
	}
}

// Goal: Close that cannot delete says so, and returns when its ctx ends.
func TestCloseSaysWhatItCouldNotRelease(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "precious")
		v.silence(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		err := c.Close(ctx)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.ErrorContains(t, err, "precious")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		over(t, l, lockpipe.ErrClosed)
		require.Empty(t, v.keys(2))
	})
}

// Goal: what a silent node was sent for a lease that has run out meanwhile is deleted when it
// speaks again, instead of beginning its whole time there.
func TestAnExpiredLeaseLeavesNothingOnANodeThatWasSilent(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, timeout(time.Second)))
	require.NoError(t, nodes.Freeze(0))
	l, err := c.AcquireAll(t.Context(), keysOf("key", 3), lockpipe.WithTTL(2*time.Second))
	require.NoError(t, err)
	ended(t, l)
	over(t, l, lockpipe.ErrExpired)
	eventually(t, func() bool { return c.Nodes()[0].PendingReleases > 0 },
		"no release is kept for the silent node")
	eventually(t, func() bool { return c.Stats().PendingReleases > 0 }, "Stats do not count it")
	require.NoError(t, nodes.Thaw(0))
	eventually(t, func() bool {
		info, err := nodes.Do(0, "INFO", "commandstats")
		text, _ := info.(string)
		return err == nil && strings.Contains(text, "cmdstat_del:calls=")
	}, "the node that was silent did not delete what it was sent")
	nothingLeft(t, nodes)
}

// Goal: a release that a silent minority does not answer is nil, and takes effect there when it
// speaks again.
func TestAReleaseReachesAMinorityThatWasSilent(t *testing.T) {
	t.Parallel()
	for _, givenUp := range []bool{false, true} {
		t.Run(fmt.Sprint("given up ", givenUp), func(t *testing.T) {
			t.Parallel()
			nodes := lockpipetest.StartRealT(t, 5)
			c := connected(t, newClient(t, nodes))
			l, err := c.TryAcquireAll(t.Context(), keysOf("key", 3))
			require.NoError(t, err)
			onEvery(t, nodes, span(0, 5), "key:2", l.Token())
			freeze(t, nodes, 0, 1)
			late := try(t, c, "late") // these nodes have not answered its acquire either
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, late.Release(t.Context()))
			nothingLeft(t, nodes, 2, 3, 4)
			if givenUp {
				eventually(t, func() bool {
					all := c.Nodes()
					return all[0].State != lockpipe.NodeUp && all[1].State != lockpipe.NodeUp
				}, "the silent connections are not given up")
			}
			thaw(t, nodes, 0, 1)
			caughtUp(t, c, nodes)
			nothingLeft(t, nodes)
			require.NoError(t, l.Release(t.Context()))
		})
	}
}

func freeze(t *testing.T, nodes *lockpipetest.Nodes, which ...int) {
	t.Helper()
	for _, i := range which {
		require.NoError(t, nodes.Freeze(i))
	}
}

func thaw(t *testing.T, nodes *lockpipetest.Nodes, which ...int) {
	t.Helper()
	for _, i := range which {
		require.NoError(t, nodes.Thaw(i))
	}
}

// Goal: a release that a majority does not answer is ErrNoQuorum, or the caller's ctx error, goes
// on in the background, and is nil when it is repeated after the nodes spoke again.
func TestAReleaseThatIsNotConfirmedContinues(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	c := connected(t, newClient(t, nodes, timeout(200*time.Millisecond)))
	l, err := c.AcquireAll(t.Context(), keysOf("key", 3))
	require.NoError(t, err)
	other := take(t, c, "other")
	onEvery(t, nodes, span(0, 5), "key:2", l.Token())
	onEvery(t, nodes, span(0, 5), "other", other.Token())
	freeze(t, nodes, 0, 1, 2)
	err = l.Release(t.Context())
	blames(t, err, nodes, span(0, 3), "")
	over(t, l, lockpipe.ErrReleased)
	blames(t, l.Release(t.Context()), nodes, span(0, 3), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, other.Release(ctx), context.Canceled)
	over(t, other, lockpipe.ErrReleased)
	require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrReleased)
	nothingLeft(t, nodes, 3, 4)
	thaw(t, nodes, 0, 1, 2)
	eventually(t, func() bool { return l.Release(t.Context()) == nil },
		"the repeated release is not confirmed")
	eventually(t, func() bool { return other.Release(t.Context()) == nil },
		"the other repeated release is not confirmed")
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// Goal: a release whose ctx has ended is sent nevertheless.
func TestAReleaseWithAnEndedContextIsSent(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	one, many := try(t, c, "one"), try(t, c, "many")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = one.Release(ctx) // the answer may come first
	_ = c.ReleaseAll(ctx, many)
	over(t, one, lockpipe.ErrReleased)
	over(t, many, lockpipe.ErrReleased)
	nothingLeft(t, nodes)
}

// Goal: a call whose ctx has ended sends nothing at all.
func TestACallWithAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	l := try(t, c, "held")
	onEvery(t, nodes, span(0, 3), "held", l.Token())
	before := traffic(t, nodes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, acquire := range acquiring {
		require.ErrorIs(t, acquire(ctx, c, []string{"k"}), context.Canceled, call)
	}
	require.ErrorIs(t, l.Extend(ctx, longTTL), context.Canceled)
	lasting(t, l)
	require.Equal(t, before, traffic(t, nodes))
}

// Goal: after every kind of end a lease tells the same in all its methods, at once, and deletes
// nothing that is not its own.
func TestALeaseReportsHowItEnded(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	t.Run("released", func(t *testing.T) {
		early, late := try(t, c, "early"), try(t, c, "late")
		ctx := early.Context()
		lasting(t, early)
		lasting(t, late)
		for _, l := range []*lockpipe.Lease{early, late} {
			require.NoError(t, l.Release(t.Context()))
			over(t, l, lockpipe.ErrReleased)
			require.NoError(t, l.Release(t.Context()))
			require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrReleased)
		}
		require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrReleased)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.Equal(t, "early", early.Key())
	})
	t.Run("expired", func(t *testing.T) {
		asked, unasked := take(t, c, "asked", lockpipe.WithTTL(time.Second)), take(t, c, "unasked",
			lockpipe.WithTTL(time.Second))
		ended(t, asked)
		eventually(t, func() bool { return unasked.Err() != nil },
			"a lease does not expire by itself")
		for _, l := range []*lockpipe.Lease{asked, unasked} {
			over(t, l, lockpipe.ErrExpired)
			require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
			require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrExpired)
			require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
			over(t, l, lockpipe.ErrExpired)
		}
	})
	nothingLeft(t, nodes)
}

// Goal: releasing a lease that has expired does not delete what another has got since.
func TestAReleaseAfterTheEndLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	old := take(t, c, "k", lockpipe.WithTTL(time.Second))
	next, err := c.Acquire(t.Context(), "k")
	require.NoError(t, err)
	over(t, old, lockpipe.ErrExpired)
	require.ErrorIs(t, old.Release(t.Context()), lockpipe.ErrExpired)
	require.ErrorIs(t, old.Extend(t.Context(), longTTL), lockpipe.ErrExpired)
	require.NotEqual(t, old.Token(), next.Token())
	caughtUp(t, c, nodes)
	held := 0
	for i := range nodes.Len() {
		// One of them may have kept the old key for a moment longer, and refused.
		if value(t, nodes, i, "k") == next.Token() {
			held++
		}
	}
	require.GreaterOrEqual(t, held, 2)
	require.NoError(t, next.Extend(t.Context(), longTTL))
	lasting(t, next)
	require.NoError(t, next.Release(t.Context()))
	nothingLeft(t, nodes)
}

// Goal: Extend moves the end of the lease later and earlier, and that of the keys on every node
// later only, without ever deleting a key.
func TestExtendMovesTheEndOnEveryNode(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithTTL(20*time.Second))
	require.NoError(t, err)
	onEvery(t, nodes, span(0, 3), "b", l.Token())
	var deletions []int
	for i := range nodes.Len() {
		deletions = append(deletions, calls(t, nodes, i, "del"))
	}
	var latest time.Time
	for _, ttl := range []time.Duration{
		30*time.Second + 900*time.Microsecond, 15 * time.Second, 50 * time.Second, 12 * time.Second,
	} {
		before := time.Now()
		if end := before.Add(ttl); end.After(latest) {
			latest = end
		}
		require.NoError(t, l.Extend(t.Context(), ttl))
		lasting(t, l)
		require.WithinRange(t, l.Until(), before.Add(ttl-ttl/100-3*time.Millisecond),
			time.Now().Add(ttl-ttl/100-2*time.Millisecond))
		for _, key := range []string{"a", "b"} {
			for i := range nodes.Len() {
				eventually(t, func() bool { // ten seconds are between any two of the TTLs
					left, err := nodes.Do(i, "PTTL", prefix+key)
					ms, _ := left.(int64)
					want := time.Until(latest).Milliseconds()
					return err == nil && ms <= want+9000 && ms > want-9000
				}, "node %d: after %v the end of %s is not %v", i, ttl, key, latest)
				require.Equal(t, l.Token(), value(t, nodes, i, key))
			}
		}
	}
	for i := range nodes.Len() {
		require.Equal(t, deletions[i], calls(t, nodes, i, "del"))
	}
	require.NoError(t, l.Release(t.Context()))
	nothingLeft(t, nodes)
}

// Goal: a lease that was shortened ends at its new end, and then no node keeps its keys.
func TestAShortenedLeaseEndsEarlier(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		ctx := l.Context()
		begin := time.Now()
		require.NoError(t, l.Extend(t.Context(), time.Second))
		<-ctx.Done()
		require.Equal(t, 988*time.Millisecond, time.Since(begin))
		require.Greater(t, v.ttl(0, "k"), longTTL-2*time.Second, "it is released from now on")
		over(t, l, lockpipe.ErrExpired)
		time.Sleep(12 * time.Millisecond)
		v.nothingLeft(t)
	})
}

// Goal: a minority that has lost the keys is given them again by Extend, which is nil; keys that
// others have there stay theirs.
func TestExtendRefillsAMinority(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	c := connected(t, newClient(t, nodes))
	l, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
	require.NoError(t, err)
	for _, k := range l.Keys() {
		onEvery(t, nodes, span(0, 5), k, l.Token())
	}
	do(t, nodes, 0, "DEL", prefix+"b")
	do(t, nodes, 1, "DEL", prefix+"a", prefix+"b", prefix+"c")
	require.NoError(t, l.Extend(t.Context(), longTTL))
	lasting(t, l)
	for _, k := range l.Keys() {
		onEvery(t, nodes, span(0, 5), k, l.Token())
	}
	do(t, nodes, 0, "SET", prefix+"b", "another")
	do(t, nodes, 1, "SET", prefix+"c", "another")
	require.NoError(t, l.Extend(t.Context(), longTTL))
	lasting(t, l)
	require.NoError(t, l.Release(t.Context()))
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes, 2, 3, 4)
	nothingOfOurs(t, nodes, []int{0}, "b")
	nothingOfOurs(t, nodes, []int{1}, "c")
}

// Goal: a key that an extension refills lasts there as long as the extension, and not as the
// acquire asked for.
func TestARefillLastsAsLongAsTheExtension(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.del(0, "k")
		time.Sleep(time.Second)
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		synctest.Wait()
		for i := range v.nodes {
			require.Equal(t, l.Token(), v.get(i, "k"))
			require.Equal(t, 20*time.Second, v.ttl(i, "k"), "node %d", i)
		}
	})
}

// Goal: a lease whose keys are gone from a majority is lost: the holder is told by Extend and by
// its context, what others have got there is theirs, and nothing of ours is left.
func TestExtendFindsALeaseLost(t *testing.T) {
	t.Parallel()
	for foreign := range 4 {
		for _, keys := range [][]string{{"k"}, {"k", "l", "m"}, append(keysOf("more", 600), "k")} {
			t.Run(fmt.Sprintf("%d keys, %d taken by another", len(keys), foreign),
				func(t *testing.T) {
					t.Parallel()
					nodes := lockpipetest.StartRealT(t, 5)
					c := connected(t, newClient(t, nodes))
					l, err := c.TryAcquireAll(t.Context(), keys)
					require.NoError(t, err)
					onEvery(t, nodes, span(0, 5), "k", l.Token())
					for i := range 3 {
						do(t, nodes, i, "DEL", prefix+"k")
						if i < foreign {
							do(t, nodes, i, "SET", prefix+"k", "another", "PX", "600000")
						}
					}
					err = l.Extend(t.Context(), longTTL)
					require.ErrorIs(t, err, lockpipe.ErrLost)
					require.NotErrorIs(t, err, lockpipe.ErrHeld)
					require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
					over(t, l, lockpipe.ErrLost)
					require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrLost)
					require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
					caughtUp(t, c, nodes)
					nothingOfOurs(t, nodes, span(0, foreign), "k")
					for i := foreign; i < 5; i++ {
						nothingLeft(t, nodes, i)
					}
				})
		}
	}
}

// Goal: with an even number of nodes half of them may lose the keys without the lease being lost:
// nobody else can have a quorum. The extension that finds it is not confirmed, and the next one is.
func TestHalfOfAnEvenNumberOfNodesIsNoLoss(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes := lockpipetest.StartRealT(t, n)
			c := connected(t, newClient(t, nodes))
			l := try(t, c, "k")
			onEvery(t, nodes, span(0, n), "k", l.Token())
			for i := range n / 2 {
				do(t, nodes, i, "DEL", prefix+"k")
			}
			require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrNoQuorum)
			lasting(t, l)
			onEvery(t, nodes, span(0, n), "k", l.Token())
			require.NoError(t, l.Extend(t.Context(), longTTL))
			require.NoError(t, l.Release(t.Context()))
			nothingLeft(t, nodes)
		})
	}
}

// Goal: releasing a lease whose keys are gone everywhere, or are another's, is success and deletes
// nothing.
func TestAReleaseOfKeysThatAreGoneIsNil(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	l := try(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	for i := range nodes.Len() {
		do(t, nodes, i, "SET", prefix+"k", "another", "PX", "600000")
	}
	require.NoError(t, l.Release(t.Context()))
	caughtUp(t, c, nodes)
	nothingOfOurs(t, nodes, span(0, 3), "k")
}

// Goal: ReleaseAll releases all that can be released, leaves out nil, takes a lease twice, and its
// error names those that were over.
func TestReleaseAllReleasesAllThatItCan(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	expired := take(t, c, "expired", lockpipe.WithTTL(time.Second))
	lost := try(t, c, "lost")
	onEvery(t, nodes, span(0, 3), "lost", lost.Token())
	for i := range nodes.Len() {
		do(t, nodes, i, "DEL", prefix+"lost")
	}
	require.ErrorIs(t, lost.Extend(t.Context(), longTTL), lockpipe.ErrLost)
	ended(t, expired)
	got, err := each(100)(t.Context(), c, "many")
	require.NoError(t, err)
	leases := append([]*lockpipe.Lease{nil, expired, got[0], lost, got[99]}, got...)
	err = c.ReleaseAll(t.Context(), leases...)
	require.ErrorIs(t, err, lockpipe.ErrExpired)
	require.ErrorIs(t, err, lockpipe.ErrLost)
	require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.ErrorContains(t, err, `"expired"`)
	require.ErrorContains(t, err, `"lost"`)
	require.NotContains(t, err.Error(), "many")
	for _, l := range got {
		over(t, l, lockpipe.ErrReleased)
	}
	require.NoError(t, c.ReleaseAll(t.Context(), got...))
	nothingLeft(t, nodes)
}

// Goal: Do releases after its function, also after a panic, which goes on, and after the caller has
// left.
func TestDoAlwaysReleases(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	held := func() {
		_, err := c.TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
	}
	t.Run("returns", func(t *testing.T) {
		require.NoError(t, c.Do(t.Context(), "k", func(ctx context.Context) error {
			held()
			return ctx.Err()
		}))
		nothingLeft(t, nodes)
	})
	t.Run("fails", func(t *testing.T) {
		var inside context.Context
		err := c.Do(t.Context(), "k", func(ctx context.Context) error {
			inside = ctx
			return io.ErrUnexpectedEOF
		})
		require.Equal(t, io.ErrUnexpectedEOF, err)
		require.Error(t, inside.Err(), "the context outlives Do")
		nothingLeft(t, nodes)
	})
	t.Run("panics", func(t *testing.T) {
		require.PanicsWithValue(t, "oh", func() {
			_ = c.Do(t.Context(), "k", func(context.Context) error {
				held()
				panic("oh")
			})
		})
		nothingLeft(t, nodes)
	})
	t.Run("caller leaves", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Do(ctx, "k", func(ctx context.Context) error {
			held()
			cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.Equal(t, context.Canceled, err)
		nothingLeft(t, nodes)
	})
	t.Run("never gets it", func(t *testing.T) {
		l := try(t, c, "k")
		ran := false
		err := c.Do(t.Context(), "k", func(context.Context) error { ran = true; return nil },
			lockpipe.WithMaxAttempts(2))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.False(t, ran)
		require.NoError(t, l.Release(t.Context()))
	})
}

// Goal: the function of Do is told by its context when the lease ends under it, and Do says so
// beside the function's error.
func TestDoCancelsItsFunctionWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	wait := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return errors.Join(io.ErrUnexpectedEOF, context.Cause(ctx))
		case <-time.After(patient):
			return errors.New("not told")
		}
	}
	t.Run("expired", func(t *testing.T) {
		c := connected(t, newClient(t, nodes))
		err := c.Do(t.Context(), "k", wait, lockpipe.WithTTL(time.Second))
		require.ErrorIs(t, err, lockpipe.ErrExpired)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		err = c.Do(t.Context(), "k", func(ctx context.Context) error {
			_ = wait(ctx)
			return nil
		}, lockpipe.WithTTL(time.Second))
		require.ErrorIs(t, err, lockpipe.ErrExpired, "a function that looks away")
	})
	t.Run("closed", func(t *testing.T) {
		c := connected(t, newClient(t, nodes))
		inside := make(chan struct{})
		end := later(func() error {
			return c.Do(context.Background(), "k", func(ctx context.Context) error {
				close(inside)
				return wait(ctx)
			})
		})
		receive(t, inside, "Do does not begin")
		require.NoError(t, c.Close(t.Context()))
		err := receive(t, end, "Do does not end")
		require.ErrorIs(t, err, lockpipe.ErrClosed)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	nothingLeft(t, nodes)
}

// Goal: after Close no goroutine of the client is left, whatever state the nodes are in, and Close
// does not outstay its ctx. This test is not parallel, since it looks at all goroutines.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	kill := (*lockpipetest.Nodes).Kill
	tests := map[string]struct {
		strike func(*lockpipetest.Nodes, int) error
		broken int
		work   bool // leases are held and calls are pending when Close comes
		early  bool // Close comes before the nodes are connected
		within time.Duration
	}{
		"healthy":          {},
		"healthy, at work": {work: true},
		"healthy, at once": {early: true},
		"minority frozen":  {strike: (*lockpipetest.Nodes).Freeze, broken: 1, work: true},
		"all frozen": {
			strike: (*lockpipetest.Nodes).Freeze, broken: 3, work: true,
			within: 200 * time.Millisecond,
		},
		"all frozen, no time at all": {
			strike: (*lockpipetest.Nodes).Freeze, broken: 3, work: true,
			within: 1,
		},
		"all frozen, at once": {
			strike: (*lockpipetest.Nodes).Freeze, broken: 3, early: true,
			within: 200 * time.Millisecond,
		},
		"minority killed": {strike: kill, broken: 1, work: true},
		"all killed": {
			strike: kill, broken: 3, work: true,
			within: 200 * time.Millisecond,
		},
		"all killed, no time at all": {strike: kill, broken: 3, work: true, within: 1},
		"all killed, at once":        {strike: kill, broken: 3, early: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nodes := lockpipetest.StartRealT(t, 3)
			for i := range nodes.Len() {
				if test.early && i < test.broken {
					require.NoError(t, test.strike(nodes, i))
				}
			}
			before := goleak.IgnoreCurrent()
			c := newClient(t, nodes, timeout(2*time.Second))
			var pending sync.WaitGroup
			if !test.early {
				connected(t, c)
			}
			if test.work {
				held := try(t, c, "held")
				_ = held.Context()
				take(t, c, "short", lockpipe.WithTTL(time.Second))
			}
			for i := range test.broken {
				if !test.early {
					require.NoError(t, test.strike(nodes, i))
				}
			}
			if test.work {
				for i := range 8 {
					pending.Go(func() {
						for {
							_, err := c.Acquire(context.Background(), fmt.Sprint("pending:", i%4))
							if errors.Is(err, lockpipe.ErrClosed) {
								return
							}
						}
					})
				}
			}
			ctx := context.Background()
			if test.within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.within)
				defer cancel()
			}
			closed := later(func() error { return c.Close(ctx) })
			err := receive(t, closed, "Close does not return")
			if test.within == 0 {
				require.NoError(t, err)
			}
			pending.Wait()
			eventually(t, func() bool { return goleak.Find(before) == nil },
				"goroutines are left: %v", goleak.Find(before))
			require.NoError(t, c.Close(context.Background()))
		})
	}
}

// Goal: a Config.Dial that ignores its context does not hold up Close: neither while a lease waits
// for the node nor later. The connection that it returns after Close is closed.
func TestCloseDoesNotWaitForADialThatHangs(t *testing.T) {
	waits := map[string]time.Duration{"while it dials": 0, "when it is down": time.Minute}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual(t, 3)
				hung := make(chan net.Conn)
				defer close(hung)
				cfg := config(v.urls, nil)
				cfg.RestartGuard = lockpipe.GuardOff // a node is missing from the first use
				cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == v.urls[2] {
						if conn := <-hung; conn != nil {
							return conn, nil
						}
						return nil, errors.New("the test is over")
					}
					return v.dial(ctx, network, addr)
				}
				c, err := lockpipe.New(cfg)
				require.NoError(t, err)
				time.Sleep(wait + time.Millisecond)
				l := take(t, c, "k", lockpipe.WithAutoExtend(time.Hour))
				if wait > 0 {
					require.Equal(t, lockpipe.NodeDown, c.Nodes()[2].State)
					require.ErrorContains(t, c.Nodes()[2].Err, "Config.Dial has not returned")
				}
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, c.Close(ctx))
				require.LessOrEqual(t, time.Since(begin), 1200*time.Millisecond)
				over(t, l, lockpipe.ErrClosed)
				for i := range v.nodes {
					require.Empty(t, v.get(i, "k"))
				}
				ours, theirs := net.Pipe()
				hung <- theirs
				_, err = ours.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF, "it is not closed")
			})
		})
	}
}

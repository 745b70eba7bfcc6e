package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The goal: Close ends the calls under way with ErrClosed, and leaves nothing of them or of what
// they held.
func TestClose_UnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	for i := range nodes.Len() {
		kit.Do(t, nodes, i, "SET", kit.Prefix+"key:0", "another", "PX", "600000")
	}
	waiting := make([]<-chan error, 8)
	for i := range waiting {
		waiting[i] = kit.Later(func() error {
			_, err := c.Acquire(context.Background(), "key:0")
			return err
		})
	}
	load := kit.StartLoad(t, c, 8, func(name string) string { return name })
	load.Continues(t, 20)
	require.NoError(t, c.Close(t.Context()))
	for _, end := range waiting {
		require.ErrorIs(t, kit.Receive(t, end, "a call goes on after Close"), lockpipe.ErrClosed)
	}
	for _, err := range load.Stop() {
		require.ErrorIs(t, err, lockpipe.ErrClosed)
	}
	kit.NothingOfOurs(t, nodes, kit.Span(0, 3), "key:0")
	require.NoError(t, c.Close(t.Context()), "a second Close")
}

// The goal: Close ends calls that are pending on silent nodes. If the nodes continue before Close
// has to give up, nothing is left there.
func TestClose_WhileCallsArePendingLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(200*time.Millisecond)))
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	pending := map[string]<-chan result{}
	for name, acquire := range kit.Shapes {
		pending[name] = kit.Later(func() result {
			got, err := acquire(context.Background(), c, name)
			return result{Got: got, Err: err}
		})
		kit.Eventually(t, func() bool {
			v, err := nodes.Do(2, "EXISTS", kit.Prefix+name+":0")
			return err == nil && v == int64(1) || len(pending[name]) > 0
		}, "the healthy node does not grant %s", name)
	}
	closed := kit.Later(func() error { return c.Close(t.Context()) })
	for name, end := range pending {
		r := kit.Receive(t, end, "a call goes on after Close: "+name)
		require.True(t, kit.AnyOf(r.Err, lockpipe.ErrClosed, lockpipe.ErrNoQuorum), "%s: %v", name,
			r.Err)
		for _, l := range r.Got {
			require.Nil(t, l, name)
		}
	}
	require.NoError(t, nodes.Thaw(0))
	require.NoError(t, nodes.Thaw(1))
	require.NoError(t, kit.Receive(t, closed, "Close does not return"))
	kit.NothingLeft(t, nodes)
}

// The goal: Close deletes what is held. The holders and all later calls get ErrClosed.
func TestClose_ReleasesWhatIsHeld(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	var leases []*lockpipe.Lease
	for name, acquire := range kit.Shapes {
		got, err := acquire(t.Context(), c, name)
		require.NoError(t, err)
		leases = append(leases, got...)
	}
	released := kit.Try(t, c, "released")
	require.NoError(t, released.Release(t.Context()))
	ctx := leases[0].Context()
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrClosed)
	for _, l := range leases {
		kit.Over(t, l, lockpipe.ErrClosed)
		require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL), lockpipe.ErrClosed)
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrClosed)
	}
	kit.Over(t, released, lockpipe.ErrReleased)
	require.NoError(t, released.Release(t.Context()))
	for i := range nodes.Len() { // Close has the answers, so there is nothing to wait for
		keys, err := kit.OwnKeys(nodes, i)
		require.NoError(t, err)
		require.Empty(t, keys)
	}
	for call, acquire := range kit.Acquiring {
		require.ErrorIs(t, acquire(t.Context(), c, []string{"k"}), lockpipe.ErrClosed, call)
	}
	require.NoError(t, c.Close(t.Context()))
}

// The goal: Close with a silent or dead minority deletes on all other nodes, and returns nil.
func TestClose_ReleasesWhatIsHeldThoughAMinorityIsGone(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*lockpipetest.Nodes,
		int) error{"frozen": (*lockpipetest.Nodes).Freeze, "killed": (*lockpipetest.Nodes).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 3)
			c := kit.Connected(t, kit.NewClient(t, nodes))
			l, err := c.TryAcquireAll(t.Context(), kit.KeysOf("key", 3))
			require.NoError(t, err)
			kit.OnEvery(t, nodes, kit.Span(0, 3), "key:0", l.Token())
			require.NoError(t, strike(nodes, 2))
			require.NoError(t, c.Close(t.Context()))
			kit.Over(t, l, lockpipe.ErrClosed)
			kit.NothingLeft(t, nodes, 0, 1)
		})
	}
}

// The goal: Close that cannot delete says so, and returns when its ctx ends.
func TestClose_SaysWhatItCouldNotRelease(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "precious")
		v.Silence(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		err := c.Close(ctx)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.ErrorContains(t, err, "precious")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		kit.Over(t, l, lockpipe.ErrClosed)
		require.Empty(t, v.Keys(2))
	})
}

// closeCase is a state of three nodes and a client when Close comes.
type closeCase struct {
	strike func(*lockpipetest.Nodes, int) error
	broken int
	work   bool // leases are held and calls are pending when Close comes
	early  bool // Close comes before the nodes are connected
	within time.Duration
}

// The goal: after Close no goroutine of the client is left, in whatever state the nodes are, and
// Close returns when its ctx ends. This test is not parallel: it looks at all goroutines. Its cases
// run side by side, and then it looks once, while their servers still run.
func TestClose_LeavesNoGoroutine(t *testing.T) {
	freeze, kill := (*lockpipetest.Nodes).Freeze, (*lockpipetest.Nodes).Kill
	const soon = 200 * time.Millisecond
	cases := map[string]closeCase{
		"healthy":                    {},
		"healthy, at work":           {work: true},
		"healthy, at once":           {early: true},
		"minority frozen":            {strike: freeze, broken: 1, work: true},
		"all frozen":                 {strike: freeze, broken: 3, work: true, within: soon},
		"all frozen, no time at all": {strike: freeze, broken: 3, work: true, within: 1},
		"all frozen, at once":        {strike: freeze, broken: 3, early: true, within: soon},
		"minority killed":            {strike: kill, broken: 1, work: true},
		"all killed":                 {strike: kill, broken: 3, work: true, within: soon},
		"all killed, no time at all": {strike: kill, broken: 3, work: true, within: 1},
		"all killed, at once":        {strike: kill, broken: 3, early: true},
	}
	servers := map[string]*lockpipetest.Nodes{}
	for name, in := range cases {
		if in.broken == 0 || !testing.Short() {
			servers[name] = servertest.Start(t, 3)
		}
	}
	before := goleak.IgnoreCurrent()
	closed := make(chan *lockpipe.Client, len(cases))
	passed := t.Run("all", func(t *testing.T) { // it waits for all of them
		for name, in := range cases {
			t.Run(name, func(t *testing.T) {
				if in.broken > 0 {
					kit.SkipIfShort(t, "Close with servers that are frozen or dead")
				}
				t.Parallel()
				closed <- in.closes(t, servers[name])
			})
		}
	})
	close(closed)
	if !passed {
		return
	}
	kit.Eventually(t, func() bool { return goleak.Find(before) == nil }, "goroutines are left: %v",
		goleak.Find(before))
	for c := range closed {
		require.NoError(t, c.Close(context.Background()))
	}
}

// closes makes a client, and returns it when it is closed in this state.
func (in closeCase) closes(t *testing.T, nodes *lockpipetest.Nodes) *lockpipe.Client {
	strike := func() {
		for i := range in.broken {
			require.NoError(t, in.strike(nodes, i))
		}
	}
	if in.early {
		strike()
	}
	// No cleanup may close it again before the test has looked at the goroutines.
	c, err := lockpipe.New(kit.Config(nodes.URLs(),
		[]func(*lockpipe.Config){kit.Timeout(2 * time.Second)}))
	require.NoError(t, err)
	if !in.early {
		kit.Connected(t, c)
	}
	if in.work {
		held := kit.Take(t, c, "held")
		_ = held.Context()
		kit.Take(t, c, "short", lockpipe.WithTTL(time.Second))
	}
	if !in.early {
		strike()
	}
	var pending sync.WaitGroup
	if in.work {
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
	if in.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.within)
		defer cancel()
	}
	closed := kit.Later(func() error { return c.Close(ctx) })
	err = kit.Receive(t, closed, "Close does not return")
	if in.within == 0 {
		require.NoError(t, err)
	}
	pending.Wait()
	return c
}

// The goal: a Config.Dial that ignores its context does not hold up Close: neither while a lease
// waits for the node nor later. The connection that it returns after Close is closed.
func TestClose_DoesNotWaitForADialThatHangs(t *testing.T) {
	t.Parallel()
	waits := map[string]time.Duration{"while it dials": 0, "when it is down": time.Minute}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := kit.NewFakeNodes(t, 3)
				hung := make(chan net.Conn)
				defer close(hung)
				cfg := kit.Config(v.URLs, nil)
				cfg.RestartGuard = lockpipe.GuardOff // a node is missing from the first use
				cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == v.URLs[2] {
						if conn := <-hung; conn != nil {
							return conn, nil
						}
						return nil, errors.New("the test is over")
					}
					return v.Dial(ctx, network, addr)
				}
				c, err := lockpipe.New(cfg)
				require.NoError(t, err)
				time.Sleep(wait + time.Millisecond)
				l := kit.Take(t, c, "k", lockpipe.WithAutoExtend(time.Hour))
				if wait > 0 {
					require.Equal(t, lockpipe.NodeDown, c.Nodes()[2].State)
					require.ErrorContains(t, c.Nodes()[2].Err, "Config.Dial has not returned")
				}
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, c.Close(ctx))
				require.LessOrEqual(t, time.Since(begin), 1200*time.Millisecond)
				kit.Over(t, l, lockpipe.ErrClosed)
				for i := range v.Nodes {
					require.Empty(t, v.Get(i, "k"))
				}
				ours, theirs := net.Pipe()
				hung <- theirs
				_, err = ours.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF, "it is not closed")
			})
		})
	}
}

// The goal: Close releases all leases that are extended automatically in few trips. They end as
// closed, and nothing is left.
func TestClose_ReleasesAutoExtendedLeasesInFewTrips(t *testing.T) {
	kit.SkipIfShort(t, "Close with very many leases")
	t.Parallel()
	const many = 600
	var told kit.Endings
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		leases := kit.TakeEach(t, c, "k", many, kit.Auto(30*time.Second, time.Hour)...)
		time.Sleep(25 * time.Second) // some extensions may be under way
		before := c.Stats()
		require.NoError(t, c.Close(t.Context()))
		after := c.Stats()
		require.Equal(t, uint64(many*3), after.Operations-before.Operations)
		require.LessOrEqual(t, after.Flushes-before.Flushes, uint64(many/5))
		for _, l := range leases {
			kit.Over(t, l, lockpipe.ErrClosed)
		}
		require.Zero(t, after.Held)
		v.NothingLeft(t)
		time.Sleep(time.Hour)
		v.NothingLeft(t)
		require.Empty(t, told.All())
	}, kit.OnLost(told.Tell))
}

// The goal: after Close no goroutine of extensions and callbacks is left. A bubble fails that ends
// with one.
func TestClose_LeavesNoGoroutineOfExtensionsAndCallbacks(t *testing.T) {
	t.Parallel()
	var told kit.Endings
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var leases []*lockpipe.Lease
		for i := range 100 {
			k := kit.Try(t, c, fmt.Sprint("k", i), kit.Auto(2*time.Second, time.Hour)...)
			leases = append(leases, k)
			kit.Try(t, c, fmt.Sprint("short", i), lockpipe.WithTTL(time.Second))
		}
		kit.Try(t, c, "panics", lockpipe.WithTTL(time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, told.All(), 101)
		require.GreaterOrEqual(t, c.Stats().Extended, uint64(100))
		require.NoError(t, c.Close(t.Context()))
		for _, l := range leases {
			kit.Over(t, l, lockpipe.ErrClosed)
		}
		v.NothingLeft(t)
	}, kit.OnLost(func(l *lockpipe.Lease, err error) {
		told.Tell(l, err)
		if l.Key() == "panics" {
			panic("on purpose")
		}
	}))
}

// The goal: Close cuts the functions of Do, DoAll and Elect, and keeps their leases until they have
// returned, however long that takes. So the next holder never overlaps with them.
func TestClose_WaitsForFunctions(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(c *lockpipe.Client, f func(ctx context.Context)) error{
		"Do": func(c *lockpipe.Client, f func(ctx context.Context)) error {
			return c.Do(context.Background(), "k", func(ctx context.Context) error {
				f(ctx)
				return nil
			}, lockpipe.WithAutoExtend(time.Hour))
		},
		"Elect": func(c *lockpipe.Client, f func(ctx context.Context)) error {
			return c.Elect(context.Background(), "k", func(ctx context.Context,
				_ *lockpipe.Lease,
			) error {
				f(ctx)
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				var working atomic.Int32
				ended := kit.Later(func() error {
					return run(c, func(ctx context.Context) {
						working.Add(1)
						<-ctx.Done()
						if cause := context.Cause(ctx); !errors.Is(cause, lockpipe.ErrClosed) {
							t.Error(cause)
						}
						time.Sleep(time.Minute) // longer than the TTL
						working.Add(-1)
					})
				})
				other := kit.Take(t, c, "other")
				next := v.Client(t)
				got := kit.Later(func() error {
					l, err := next.Acquire(t.Context(), "k")
					if working.Load() != 0 {
						t.Error("the function still runs")
					}
					return errors.Join(err, l.Release(t.Context()))
				})
				time.Sleep(time.Second)
				begin := time.Now()
				closed := kit.Later(func() error { return c.Close(context.Background()) })
				time.Sleep(time.Second)
				require.EqualValues(t, 1, working.Load())
				kit.Over(t, other, lockpipe.ErrClosed)
				require.Empty(t, v.Get(0, "other"), "a lease without a function is released at once")
				require.ErrorIs(t, c.Do(t.Context(), "k", nil), lockpipe.ErrInvalid)
				require.ErrorIs(t, run(c, func(context.Context) { t.Error("it runs") }),
					lockpipe.ErrClosed)
				require.ErrorIs(t, <-ended, lockpipe.ErrClosed)
				require.NoError(t, <-closed)
				require.Less(t, time.Since(begin), 61*time.Second)
				require.NoError(t, <-got)
				v.NothingLeft(t)
			})
		})
	}
}

// The goal: if the ctx of Close ends while a function runs, its keys are not released: they stay
// for the rest of their TTL, and the error says so.
func TestClose_LeavesTheKeysOfFunctionsThatStillRun(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		goOn := make(chan struct{})
		ended := kit.Later(func() error {
			return c.DoAll(context.Background(), []string{"k"}, func(_ context.Context,
				l *lockpipe.Lease,
			) error {
				<-goOn
				if err := l.Err(); !errors.Is(err, lockpipe.ErrClosed) {
					t.Error(err)
				}
				return nil
			}, lockpipe.WithTTL(10*time.Second), lockpipe.WithAutoExtend(time.Hour))
		})
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 functions still run")
		time.Sleep(2 * time.Second)
		require.NotEmpty(t, v.Get(0, "k"), "it may still be needed")
		time.Sleep(9 * time.Second)
		v.NothingLeft(t)
		close(goOn)
		err = <-ended
		require.ErrorIs(t, err, lockpipe.ErrClosed)
		require.Equal(t, 1, strings.Count(err.Error(), "client is closed"))
	})
}

// The goal: the error of Close names the releases that are not confirmed, and tells the functions
// that still run too.
func TestClose_TellsOfReleasesAndOfFunctions(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Hold(t, c, "left")
		goOn := make(chan struct{})
		ended := kit.Later(func() error {
			return c.Do(t.Context(), "k", func(context.Context) error { <-goOn; return nil })
		})
		synctest.Wait()
		v.Silence(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `1 of 1 leases: release of "left" not confirmed`)
		require.ErrorContains(t, err, "1 functions still run")
		require.Equal(t, 1, strings.Count(err.Error(), "lockpipe:"))
		close(goOn)
		require.ErrorIs(t, <-ended, lockpipe.ErrClosed)
	})
}

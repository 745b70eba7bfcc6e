package calls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a token that was set by hand, as another Redlock client does, excludes us on a majority
// and not on a minority, and none of our clean-ups, extensions and releases touches it.
func TestAcquire_AForeignTokenIsNeverTouched(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	for i := range 3 {
		kit.Do(t, nodes, i, "SET", kit.Prefix+"majority", "another", "NX", "PX", "600000")
	}
	for i := range 2 {
		kit.Do(t, nodes, i, "SET", kit.Prefix+"minority", "another", "NX", "PX", "600000")
	}
	_, err := c.TryAcquire(t.Context(), "majority")
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	_, err = c.TryAcquireAll(t.Context(), []string{"free", "majority"})
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	l, err := c.TryAcquireAll(t.Context(), []string{"minority", "free"})
	require.NoError(t, err)
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	require.NoError(t, l.Release(t.Context()))
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes, 3, 4)
	for i := range 3 {
		require.Equal(t, "another", kit.Value(t, nodes, i, "majority"))
		require.Greater(t, kit.Do(t, nodes, i, "PTTL", kit.Prefix+"majority"), int64(500_000))
	}
	for i := range 2 {
		require.Equal(t, "another", kit.Value(t, nodes, i, "minority"))
		require.Greater(t, kit.Do(t, nodes, i, "PTTL", kit.Prefix+"minority"), int64(500_000))
	}
	kit.NothingOfOurs(t, nodes, []int{2}, "majority")
}

// The goal: what a failed call left on some nodes is released before they execute a later call of
// the same client, also if they are sent both in one flush.
func TestAcquire_WhatAFailedCallLeftDoesNotRefuseTheNext(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for i := range 3 {
			v.Set(i, "majority", "another's")
		}
		for i := range 2 {
			v.Set(i, "minority", "another's")
		}
		v.Silence(3, 4)
		_, err := c.TryAcquireAll(t.Context(), []string{"free", "majority"})
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		next := kit.Later(func() kit.Outcome {
			l, err := c.TryAcquireAll(t.Context(), []string{"minority", "free"})
			return kit.OutcomeNow(l, err)
		})
		synctest.Wait() // nodes 3 and 4 have the first call alone
		v.Speak(3, 4)
		o := <-next
		require.NoError(t, o.Err)
		kit.Release(t, o.Lease)
	})
}

// The goal: a key of another Redis type counts as held, and stays what it is.
func TestAcquire_AKeyOfAnotherTypeCountsAsHeld(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	kinds := map[string][]string{
		"list": {"RPUSH", "v"}, "hash": {"HSET", "f", "v"}, "set": {"SADD", "v"}, "zset": {
			"ZADD",
			"1", "v",
		}, "stream": {"XADD", "*", "f", "v"},
	}
	for kind, command := range kinds {
		for i := range nodes.Len() {
			kit.Do(t, nodes, i, append([]string{command[0], kit.Prefix + kind}, command[1:]...)...)
		}
		var held *lockpipe.HeldError
		_, err := c.TryAcquire(t.Context(), kind)
		require.ErrorAs(t, err, &held)
		require.Equal(t, []string{kind}, held.Keys)
		_, err = c.TryAcquireAll(t.Context(), []string{"free", kind})
		require.ErrorAs(t, err, &held)
		require.Equal(t, []string{kind}, held.Keys)
		for i := range nodes.Len() {
			require.Equal(t, kind, kit.Do(t, nodes, i, "TYPE", kit.Prefix+kind))
		}
	}
	for i := range nodes.Len() {
		kit.Eventually(t, func() bool {
			keys, err := kit.OwnKeys(nodes, i)
			return err == nil && len(keys) == len(kinds)
		}, "node %d has something of ours", i)
	}
}

// The goal: the first call after New succeeds, though the test does not wait for the nodes.
func TestAcquire_TheFirstCallAfterNewWorks(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	for range 5 {
		c := kit.NewClient(t, nodes)
		require.NoError(t, kit.Try(t, c, "k").Release(t.Context()))
		require.NoError(t, c.Close(t.Context()))
	}
}

// The goal: any number of nodes decides as soon as the silent ones cannot change the outcome. Time
// is virtual, so no time at all passes then. If they can change it, the node timeout passes.
func TestAcquire_ADecisionDoesNotWaitForVotesThatCannotChangeIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		nodes, silent, held int
		want                error
		waits               bool
	}{
		{nodes: 1, want: nil},
		{nodes: 1, held: 1, want: lockpipe.ErrHeld},
		{nodes: 1, silent: 1, want: lockpipe.ErrNoQuorum, waits: true},
		{nodes: 2, want: nil},
		{nodes: 2, held: 1, want: lockpipe.ErrHeld},
		{nodes: 2, held: 1, silent: 1, want: lockpipe.ErrHeld},
		{nodes: 2, silent: 1, want: lockpipe.ErrNoQuorum, waits: true},
		{nodes: 3, silent: 1, want: nil},
		{nodes: 3, held: 2, silent: 1, want: lockpipe.ErrHeld},
		{nodes: 3, held: 1, silent: 1, want: lockpipe.ErrNoQuorum, waits: true},
		{nodes: 4, silent: 1, want: nil},
		{nodes: 4, held: 2, silent: 2, want: lockpipe.ErrHeld},
		{nodes: 4, held: 2, silent: 1, want: lockpipe.ErrHeld},
		{nodes: 4, held: 1, silent: 1, want: lockpipe.ErrNoQuorum, waits: true},
		{nodes: 4, silent: 2, want: lockpipe.ErrNoQuorum, waits: true},
		{nodes: 5, silent: 2, want: nil},
		{nodes: 5, held: 3, silent: 2, want: lockpipe.ErrHeld},
		{nodes: 5, silent: 3, want: lockpipe.ErrNoQuorum, waits: true},
		{nodes: 6, held: 3, silent: 3, want: lockpipe.ErrHeld},
		{nodes: 6, silent: 2, want: nil},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			const limit = 200 * time.Millisecond
			kit.InBubble(t, test.nodes, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				v.Silence(kit.Span(test.nodes-test.silent, test.nodes)...)
				for i := range test.held {
					v.Set(i, "k", "another")
				}
				begin := time.Now()
				l, err := c.TryAcquire(t.Context(), "k")
				require.ErrorIs(t, err, test.want)
				require.Equal(t, err == nil, l != nil)
				if test.waits {
					require.Equal(t, limit, time.Since(begin))
				} else {
					require.Zero(t, time.Since(begin))
				}
			}, kit.Timeout(limit))
		})
	}
}

// The goal: two clients with the load of many callers never hold one key at the same time while
// nodes come and go.
func TestAcquire_NobodyHoldsAKeyTwiceWhileNodesComeAndGo(t *testing.T) {
	kit.SkipIfShort(t, "mutual exclusion while servers come and go")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	clients := []*lockpipe.Client{
		kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(2*time.Second))),
		kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(2*time.Second))),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var holders [4]atomic.Int64
	var rounds, twice atomic.Int64
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			for n := w; ctx.Err() == nil; n++ {
				k := n % len(holders)
				l, err := clients[w%2].Acquire(ctx, fmt.Sprint("hot:", k),
					lockpipe.WithRetryDelay(0, 5*time.Millisecond))
				if err != nil {
					continue
				}
				if holders[k].Add(1) != 1 && l.Err() == nil {
					twice.Add(1)
				}
				rounds.Add(1)
				holders[k].Add(-1)
				_ = l.Release(context.Background())
			}
		})
	}
	for round := range 4 {
		i := round % nodes.Len()
		seen := rounds.Load()
		// A frozen node forgets nothing, so there is nothing to guard against.
		require.NoError(t, nodes.Freeze(i))
		kit.Eventually(t, func() bool { return rounds.Load() > seen+50 },
			"no progress with a frozen node")
		require.NoError(t, nodes.Thaw(i))
		kit.Eventually(t, func() bool { return rounds.Load() > seen+100 },
			"no progress with a thawed node")
	}
	cancel()
	workers.Wait()
	require.Zero(t, twice.Load())
	for _, c := range clients {
		kit.CaughtUp(t, c, nodes)
	}
	kit.NothingLeft(t, nodes)
}

// The goal: any bytes make a key, up to 64 KiB with the prefix, and the nodes have exactly these.
func TestAcquire_AnyBytesMakeAKey(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	keys := map[string]string{
		"64 KiB":             strings.Repeat("k", 64<<10-len(kit.Prefix)),
		"line ends and NUL":  "a\r\nDEL x\r\n\x00\x00\r\n$3\r\n",
		"NUL alone":          "\x00",
		"no UTF-8":           "\xff\xfe\x80 \xc3(",
		"a pattern":          "*?[a-z]\\{x}",
		"space":              " ",
		"all bytes":          allBytes(),
		"the prefix":         kit.Prefix,
		"a number":           "1",
		"a protocol request": "*1\r\n$8\r\nFLUSHALL\r\n",
	}
	for name, key := range keys {
		for _, more := range [][]string{nil, {"companion"}} { // by SET, and by the script
			l, err := c.TryAcquireAll(t.Context(), append([]string{key}, more...))
			require.NoError(t, err, name)
			require.Equal(t, key, l.Key(), name)
			kit.OnEvery(t, nodes, kit.Span(0, 3), key, l.Token())
			for i := range nodes.Len() {
				has, err := kit.OwnKeys(nodes, i)
				require.NoError(t, err)
				require.Contains(t, has, kit.Prefix+key, name)
				require.Len(t, has, 1+len(more), name)
			}
			_, err = c.TryAcquire(t.Context(), key)
			var held *lockpipe.HeldError
			require.ErrorAs(t, err, &held, name)
			require.Equal(t, []string{key}, held.Keys, name)
			require.NoError(t, l.Extend(t.Context(), kit.LongTTL), name)
			require.NoError(t, l.Release(t.Context()), name)
			kit.NothingLeft(t, nodes)
		}
	}
}

func allBytes() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

// The goal: an attempt that a majority refuses leaves nothing on the minority that granted, nor a
// part of its keys anywhere.
func TestAcquire_ARefusedAttemptLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	for i := range 3 {
		kit.Do(t, nodes, i, "SET", kit.Prefix+"key:0", "another", "PX", "600000")
	}
	for name, acquire := range kit.Shapes {
		got, err := acquire(t.Context(), c, "key", lockpipe.WithMaxAttempts(3))
		for errors.Is(err, lockpipe.ErrNoQuorum) { // a busy machine has lost connections
			_ = c.ReleaseAll(t.Context(), got...)
			got, err = acquire(t.Context(), kit.Connected(t, c), "key", lockpipe.WithMaxAttempts(3))
		}
		require.ErrorIs(t, err, lockpipe.ErrHeld, name)
		require.NoError(t, c.ReleaseAll(t.Context(), got...), name)
	}
	// The last part is refused, after the others were granted.
	_, err := c.TryAcquireAll(t.Context(), append(kit.KeysOf("key", 600)[1:], "key:0"))
	for errors.Is(err, lockpipe.ErrNoQuorum) {
		_, err = kit.Connected(t, c).TryAcquireAll(t.Context(),
			append(kit.KeysOf("key", 600)[1:], "key:0"))
	}
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes, 3, 4)
	kit.NothingOfOurs(t, nodes, kit.Span(0, 3), "key:0")
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

// The goal: however a call ends while a majority is silent, no node keeps anything of it when it
// continues, also nothing of a connection that is gone. The next caller finds the keys free.
func TestAcquire_AnInterruptedCallLeavesNothing(t *testing.T) {
	kit.SkipIfShort(t, "calls that end while servers are silent")
	t.Parallel()
	for name, in := range interruptions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interrupted(t, in)
		})
	}
}

func interrupted(t *testing.T, in interruption) {
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(in.nodeTimeout)))
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	ctx := kit.NewEndingContext(t.Context(), in.ends)
	ends := map[string]<-chan result{}
	for name, acquire := range kit.Shapes {
		ends[name] = kit.Later(func() result {
			got, err := acquire(ctx, c, name, lockpipe.WithMaxAttempts(1))
			return result{Got: got, Err: err}
		})
	}
	if in.ends != nil {
		for name := range kit.Shapes {
			kit.Eventually(t, func() bool {
				v, err := nodes.Do(2, "EXISTS", kit.Prefix+name+":0")
				return err == nil && v == int64(1)
			}, "the healthy node does not grant %s", name)
		}
		ctx.End()
	}
	for name, end := range ends {
		r := kit.Receive(t, end, "the call does not end: "+name)
		for _, l := range r.Got {
			require.Nil(t, l, name)
		}
		for _, want := range in.want {
			require.ErrorIs(t, r.Err, want, name)
		}
		for _, notWant := range in.notWant {
			require.NotErrorIs(t, r.Err, notWant, name)
		}
	}
	kit.NothingLeft(t, nodes, 2)
	if in.givenUp {
		kit.Eventually(t, func() bool {
			all := c.Nodes()
			return all[0].State != lockpipe.NodeUp && all[1].State != lockpipe.NodeUp
		}, "the silent connections are not given up")
	}
	require.NoError(t, nodes.Thaw(0))
	require.NoError(t, nodes.Thaw(1))
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
	next := kit.Connected(t, kit.NewClient(t, nodes))
	for name, acquire := range kit.Shapes {
		got, err := acquire(t.Context(), next, name, lockpipe.WithMaxAttempts(1))
		require.NoError(t, err, name)
		require.NoError(t, next.ReleaseAll(t.Context(), got...), name)
	}
	kit.NothingLeft(t, nodes)
}

// The goal: a call whose ctx has ended sends nothing at all.
func TestAcquire_ACallWithAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "held")
		before := v.Sent()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for call, acquire := range kit.Acquiring {
			require.ErrorIs(t, acquire(ctx, c, []string{"k"}), context.Canceled, call)
		}
		require.ErrorIs(t, l.Extend(ctx, kit.LongTTL), context.Canceled)
		kit.Lasting(t, l)
		require.Equal(t, before, v.Sent())
	})
}

// The goal: with the longest TTL and NodeTimeout a lease of very many keys is granted, extended and
// released. A longer TTL is refused.
func TestAcquire_TheLongestTTLIsGranted(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		long := v.Client(t, kit.Longest)
		for _, d := range kit.Huge {
			_, err := long.TryAcquire(t.Context(), "k", lockpipe.WithTTL(d))
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, fmt.Sprintf("WithTTL(%v)", d))
		}
		keys := make([]string, 5000)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		l, err := long.TryAcquireAll(t.Context(), keys)
		require.NoError(t, err)
		require.Greater(t, time.Until(l.Until()), kit.LongestTTL*98/100)
		for _, d := range kit.Huge {
			err := l.Extend(t.Context(), d)
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, fmt.Sprintf("Extend(%v)", d))
		}
		require.NoError(t, l.Extend(t.Context(), kit.LongestTTL))
		_, err = c.TryAcquire(t.Context(), "1")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.NoError(t, l.Release(t.Context()))
		synctest.Wait()
		require.NoError(t, kit.Try(t, c, "1").Release(t.Context()))
	})
}

// overwrite changes all that the memory of a slice has room for, as an append by its owner may.
func overwrite(s []string) {
	for i := range s[:cap(s)] {
		s[:cap(s)][i] = "changed"
	}
}

// result is what a call of a shape gave.
type result struct {
	Got []*lockpipe.Lease
	Err error
}

package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
	"github.com/stretchr/testify/require"
)

// peeked is Peek that must succeed. Times left are cut to whole minutes.
func peeked(t *testing.T, c *lockpipe.Client, keys ...string) []lockpipe.KeyStatus {
	t.Helper()
	all, err := c.Peek(t.Context(), keys)
	require.NoError(t, err)
	for i := range all {
		all[i].Left = all[i].Left.Truncate(time.Minute)
	}
	return all
}

// The goal: for each key in its place, who holds it and for how long, and on how many nodes.
func TestPeek_SaysWhoHoldsEachKey(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	long := func(cfg *lockpipe.Config) { cfg.MaxTTL = time.Hour }
	web := kit.Connected(t, kit.NewClient(t, nodes, long, ownedBy("web-3:4711")))
	nameless := kit.Connected(t, kit.NewClient(t, nodes, long, ownedBy(lockpipe.NoOwner)))
	held, err := web.TryAcquireAll(t.Context(), []string{"a", "b"},
		lockpipe.WithTTL(150*time.Second))
	require.NoError(t, err)
	secret := kit.Try(t, nameless, "secret", lockpipe.WithTTL(150*time.Second))
	kit.OnEvery(t, nodes, kit.Span(0, 3), "b", held.Token())
	kit.OnEvery(t, nodes, kit.Span(0, 3), "secret", secret.Token())
	for i := range nodes.Len() {
		kit.Do(t, nodes, i, "SET", kit.Prefix+"redsync", "5rv2cYxKGkOQNyN7jTDFkg==", "PX", "150000")
		kit.Do(t, nodes, i, "SET", kit.Prefix+"large", strings.Repeat("x", 1<<20))
		kit.Do(t, nodes, i, "RPUSH", kit.Prefix+"list", "x")
	}
	const forever = time.Duration(1<<63 - 1)
	byWeb := lockpipe.KeyStatus{
		Key: "b", Held: true, Owner: "web-3:4711", Left: 2 * time.Minute, Nodes: 3,
	}
	for _, c := range []*lockpipe.Client{web, nameless} {
		require.Equal(t, []lockpipe.KeyStatus{
			byWeb,
			{Key: "free"},
			{Key: "secret", Held: true, Left: 2 * time.Minute, Nodes: 3},
			{Key: "redsync", Held: true, Left: 2 * time.Minute, Nodes: 3},
			byWeb,
			{Key: "large", Held: true, Left: forever.Truncate(time.Minute), Nodes: 3},
			{Key: "list", Held: true, Left: forever.Truncate(time.Minute), Nodes: 3},
		}, peeked(t, c, "b", "free", "secret", "redsync", "b", "large", "list"))
	}
	kit.Release(t, held)
	for _, key := range []string{"a", "b"} {
		kit.OnEvery(t, nodes, kit.Span(0, 3), key, "")
	}
	require.Equal(t, []lockpipe.KeyStatus{{Key: "b"}}, peeked(t, nameless, "b"))
	for _, n := range web.Nodes() {
		require.Zero(t, n.Stats.Disconnects)
	}
}

// The goal: a key that too few nodes have is not held, and the count shows it. With a quorum, the
// time left is that of the quorum.
func TestPeek_CountsTheNodes(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	kit.Do(t, nodes, 0, "SET", kit.Prefix+"k", "one", "PX", "150000")
	kit.Do(t, nodes, 1, "SET", kit.Prefix+"k", "another", "PX", "150000")
	require.Equal(t, []lockpipe.KeyStatus{{Key: "k", Nodes: 1}}, peeked(t, c, "k"))
	kit.Do(t, nodes, 1, "SET", kit.Prefix+"k", "one", "PX", "90000")
	require.Equal(t, []lockpipe.KeyStatus{
		{Key: "k", Held: true, Left: time.Minute, Nodes: 2},
	}, peeked(t, c, "k"))
}

// The goal: Peek says how many processes stand in the line for a key, with one that has it now.
func TestPeek_SaysHowManyWait(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, c, "k")
		first := kit.Queue(t, v.Client(t), "k")
		second := kit.Queue(t, v.Client(t), "k")
		third := kit.QueueFor(t.Context(), c, []string{"other"})
		waiting := func() int {
			all, err := c.Peek(t.Context(), []string{"free", "k"})
			require.NoError(t, err)
			require.Zero(t, all[0].Waiting)
			return all[1].Waiting
		}
		require.Equal(t, 2, waiting())
		kit.Release(t, held)
		time.Sleep(time.Second) // it does not push
		l := kit.Granted(t, first)
		require.Equal(t, 2, waiting())
		kit.Release(t, l)
		time.Sleep(time.Second)
		kit.Release(t, kit.Granted(t, second))
		synctest.Wait()
		require.Zero(t, waiting())
		kit.Release(t, kit.Granted(t, third))
	})
}

// The goal: many keys, more than a script or a trip takes, are in their order.
func TestPeek_ManyKeys(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.NewClient(t, nodes) // which is not connected yet
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
		if i%7 == 0 {
			kit.Do(t, nodes, i%3, "SET", kit.Prefix+keys[i], "x")
		}
	}
	for i, s := range peeked(t, c, keys...) {
		want := lockpipe.KeyStatus{Key: keys[i]}
		if i%7 == 0 {
			want.Nodes = 1
		}
		require.Equal(t, want, s)
	}
}

// The goal: a quorum's answers are enough. Without a quorum the error names each node and why it
// said nothing.
func TestPeek_NeedsAQuorum(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(3*time.Second)))
	l := kit.Try(t, c, "k")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", l.Token())
	require.NoError(t, nodes.Freeze(0))
	s := peeked(t, c, "k")
	require.True(t, s[0].Held)
	require.Equal(t, 2, s[0].Nodes)

	require.NoError(t, nodes.Flush(1))
	kit.Eventually(t, func() bool { return c.Nodes()[1].State == lockpipe.NodeQuarantined },
		"the flush is not noticed")
	_, err := c.Peek(t.Context(), []string{"k"})
	q := kit.QuorumError(t, err)
	require.Equal(t, 1, q.Granted)
	kit.Blames(t, err, nodes, []int{1}, "quarantined until ")
	kit.Blames(t, err, nodes, []int{0}, "")
	require.ErrorContains(t, err, "1 of 3 nodes answered, 2 needed; 1 quarantined, 1 ")

	require.NoError(t, nodes.Kill(2))
	down(t, c, 2, "")
	_, err = c.Peek(t.Context(), []string{"k"})
	require.ErrorContains(t, err, "0 of 3 nodes answered")
}

// The goal: ctx ends a call whose nodes do not answer, and is in the error. So is Close.
func TestPeek_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	require.NoError(t, nodes.Freeze(0))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	const callers = 10 // of which some wait for the others
	for range callers {
		go func() {
			_, err := c.Peek(ctx, []string{"k"})
			ended <- err
		}()
	}
	cancel()
	for range callers {
		err := kit.Receive(t, ended, "the call does not end")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
	later := make(chan error)
	go func() {
		_, err := c.Peek(t.Context(), []string{"k"})
		later <- err
	}()
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_ = c.Close(ctx)
	require.ErrorIs(t, kit.Receive(t, later, "the call does not end"), lockpipe.ErrClosed)
	_, err := c.Peek(t.Context(), []string{"k"})
	require.ErrorIs(t, err, lockpipe.ErrClosed)
}

// The goal: what makes no sense is refused, as by every call with keys.
func TestPeek_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	c := kit.NewClient(t, servertest.Start(t, 1))
	for _, keys := range [][]string{nil, {}, {""}, {"a", ""}, {"lockpipe:admitted"}} {
		_, err := c.Peek(t.Context(), keys)
		require.ErrorIs(t, err, lockpipe.ErrInvalid, "%q", keys)
	}
	var none context.Context
	_, err := c.Peek(none, []string{"k"})
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
}

// The goal: unit tests with the fake see the holders too, also in a bubble.
func TestPeek_OfTheFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClient(t, ownedBy("orders"))
		_, err := c.TryAcquire(t.Context(), "mine", lockpipe.WithTTL(10*time.Second))
		require.NoError(t, err)
		c.Hold("theirs")
		time.Sleep(4 * time.Second)
		all, err := c.Peek(t.Context(), []string{"mine", "theirs", "free"})
		require.NoError(t, err)
		require.Equal(t, "orders", all[0].Owner)
		require.Equal(t, 6*time.Second, all[0].Left)
		require.True(t, all[1].Held)
		require.Empty(t, all[1].Owner)
		require.Equal(t, lockpipe.KeyStatus{Key: "free"}, all[2])
	})
}

package lockpipe_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// fault is one way for a master to have a bad day.
type fault struct {
	name string
	says string // is in the error of each broken node
	// strike breaks node i, and mend makes it as good as before. Both return when it has happened.
	strike, mend func(t *testing.T, nodes *lockpipetest.Nodes, i int)
	noticed      bool // the client sees the node as down before it goes on
	extends      bool // a broken node still extends
	releases     bool // a broken node still releases
}

// commands is a strike or mend by commands that the node confirms.
func commands(commands ...string) func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	return func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
		t.Helper()
		for _, command := range commands {
			do(t, nodes, i, strings.Fields(command)...)
		}
	}
}

var faults = []fault{
	{
		name: "READONLY", says: "READONLY",
		strike: commands("REPLICAOF 127.0.0.1 1"), mend: commands("REPLICAOF NO ONE"),
	},
	{
		name: "OOM", says: "OOM", extends: true, releases: true,
		strike: commands("CONFIG SET maxmemory-policy noeviction maxmemory 1"),
		mend:   commands("CONFIG SET maxmemory 0"),
	},
	{
		name: "NOAUTH", says: "NOAUTH", noticed: true,
		strike: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			converse(t, nodes, i, "CONFIG SET requirepass secret", "CLIENT KILL TYPE normal")
		},
		mend: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			converse(t, nodes, i, "AUTH secret", `CONFIG SET requirepass ""`)
		},
	},
	{
		name: "NOPERM for SET", says: "command", extends: true, releases: true,
		strike: commands("ACL SETUSER default -set"), mend: commands("ACL SETUSER default +set"),
	},
	{
		name: "NOPERM for all that is needed", says: "NOPERM",
		strike: commands("ACL SETUSER default -set -evalsha -eval"),
		mend:   commands("ACL SETUSER default +set +evalsha +eval"),
	},
	{
		name: "NOPERM for the keys", says: "NOPERM",
		strike: commands("ACL SETUSER default resetkeys ~elsewhere:*"),
		mend:   commands("ACL SETUSER default allkeys"),
	},
	{name: "LOADING", says: "LOADING", noticed: true, strike: startLoading, mend: endLoading},
	{name: "BUSY", says: "BUSY", strike: startScript, mend: endScript},
	{
		name: "refused", says: "refused", noticed: true,
		strike: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			require.NoError(t,
				nodes.Kill(i))
		},
		mend: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			require.NoError(t,
				nodes.Restart(i))
		},
	},
	{
		name: "silent",
		strike: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			require.NoError(t,
				nodes.Freeze(i))
		},
		mend: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			require.NoError(t,
				nodes.Thaw(i))
		},
	},
}

// startLoading makes the node load a data set for longer than a test lasts. Its keys go, and come
// back.
func startLoading(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	do(t, nodes, i, "CONFIG", "SET", "dir", t.TempDir())
	do(t, nodes, i, "CONFIG", "SET", "rdbcompression", "no",
		"loading-process-events-interval-bytes", "1024")
	do(t, nodes, i, "DEBUG", "POPULATE", "2000", "filling", "1024")
	do(t, nodes, i, "CONFIG", "SET", "key-load-delay", "20000")
	go func() { _, _ = nodes.Do(i, "DEBUG", "RELOAD") }()
	eventually(t, func() bool { return complains(nodes, i, "LOADING") }, "node %d does not load", i)
}

func endLoading(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	do(t, nodes, i, "CONFIG", "SET", "key-load-delay", "0")
	eventually(t, func() bool { return !complains(nodes, i, "") }, "node %d loads for ever", i)
}

// startScript keeps the node busy with a script that never ends.
func startScript(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	do(t, nodes, i, "CONFIG", "SET", "busy-reply-threshold", "10")
	go func() { _, _ = nodes.Do(i, "EVAL", "while true do end", "0") }()
	eventually(t, func() bool { return complains(nodes, i, "BUSY") }, "node %d is not busy", i)
}

func endScript(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	do(t, nodes, i, "SCRIPT", "KILL")
	eventually(t, func() bool { return !complains(nodes, i, "") }, "node %d is busy for ever", i)
}

func complains(nodes *lockpipetest.Nodes, i int, word string) bool {
	_, err := nodes.Do(i, "PING")
	return err != nil && strings.Contains(err.Error(), word)
}

// unguarded lets a node that restarts empty, or was a replica, vote at once: what the guard does
// then has tests of its own.
func (f fault) unguarded(cfg *lockpipe.Config) {
	if f.name == "refused" || f.name == "READONLY" {
		cfg.RestartGuard = lockpipe.GuardOff
	}
}

// strikes lets the fault happen to the nodes, and waits until the client knows where it can know.
func (f fault) strikes(t *testing.T, c *lockpipe.Client, nodes *lockpipetest.Nodes, which []int) {
	t.Helper()
	for _, i := range which {
		f.strike(t, nodes, i)
	}
	for _, i := range which {
		if f.noticed {
			down(t, c, i, f.says)
		}
	}
}

func (f fault) mends(t *testing.T, nodes *lockpipetest.Nodes, which []int) {
	t.Helper()
	for _, i := range which {
		f.mend(t, nodes, i)
	}
}

// sizes are the numbers of nodes that a fault is tried on.
func (f fault) sizes() []int {
	switch f.name {
	case "refused", "silent", "READONLY":
		return []int{1, 3, 5}
	case "BUSY":
		return []int{3} // each busy node takes a core
	}
	return []int{5}
}

// Goal: no fault of a minority is seen by any caller, and what the faulty nodes missed is made good
// when they are mended.
func TestAMinorityOfFaultyNodesIsNotNoticed(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		for _, n := range f.sizes() {
			if n > 1 {
				t.Run(fmt.Sprintf("%s/%d of %d", f.name, (n-1)/2, n), func(t *testing.T) {
					t.Parallel()
					minorityFails(t, f, n)
				})
			}
		}
	}
}

func minorityFails(t *testing.T, f fault, n int) {
	nodes := lockpipetest.StartRealT(t, n)
	c := connected(t, newClient(t, nodes, f.unguarded))
	old, older := try(t, c, "old"), try(t, c, "older")
	onEvery(t, nodes, span(0, n), "old", old.Token())
	broken := span(0, (n-1)/2)
	f.strikes(t, c, nodes, broken)

	require.NoError(t, old.Extend(t.Context(), longTTL))
	one := try(t, c, "one")
	all, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
	require.NoError(t, err)
	waited, err := c.Acquire(t.Context(), "waited")
	require.NoError(t, err)
	leases := []*lockpipe.Lease{old, one, all, waited}
	for _, r := range c.TryAcquireEach(t.Context(), []string{"x", "y"}) {
		require.NoError(t, r.Err)
		leases = append(leases, r.Lease)
	}
	_, err = c.TryAcquire(t.Context(), "one")
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	for _, l := range leases {
		require.NoError(t, l.Extend(t.Context(), longTTL), l.Key())
		lasting(t, l)
	}
	require.NoError(t, older.Release(t.Context()))
	for _, l := range leases {
		require.NoError(t, l.Release(t.Context()), l.Key())
		over(t, l, lockpipe.ErrReleased)
		require.NoError(t, l.Release(t.Context()), l.Key())
	}
	again := try(t, c, "one")
	require.NoError(t, again.Release(t.Context()))
	f.mends(t, nodes, broken)
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// Goal: a fault of a majority is ErrNoQuorum in every call, names each faulty node with what was
// wrong there, and is never taken for a holder or for the caller's deadline. When it is over,
// nothing is left of all that was tried.
func TestAMajorityOfFaultyNodesIsNoQuorum(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		for _, n := range f.sizes() {
			t.Run(fmt.Sprintf("%s/%d of %d", f.name, n/2+1, n), func(t *testing.T) {
				t.Parallel()
				majorityFails(t, f, n)
			})
		}
	}
}

func majorityFails(t *testing.T, f fault, n int) {
	nodes := lockpipetest.StartRealT(t, n)
	limit := 5 * time.Second
	if f.name == "silent" { // nothing but the limit ends these calls
		limit = 300 * time.Millisecond
	}
	c := connected(t, newClient(t, nodes, timeout(limit), f.unguarded))
	held := take(t, c, "held")
	onEvery(t, nodes, span(0, n), "held", held.Token())
	broken := span(0, n/2+1)
	f.strikes(t, c, nodes, broken)

	for call, acquire := range acquiring {
		if call == "Do" {
			continue // it is Acquire
		}
		err := acquire(t.Context(), c, []string{call}, lockpipe.WithMaxAttempts(1))
		blames(t, err, nodes, broken, f.says)
	}
	_, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
	blames(t, err, nodes, broken, f.says)
	for _, r := range c.TryAcquireEach(t.Context(), []string{"x", "y"}) {
		blames(t, r.Err, nodes, broken, f.says)
		require.Nil(t, r.Lease)
	}
	err = held.Extend(t.Context(), longTTL)
	if f.extends {
		require.NoError(t, err)
	} else {
		blames(t, err, nodes, broken, f.says)
	}
	lasting(t, held)
	err = held.Release(t.Context())
	if f.releases {
		require.NoError(t, err)
	} else {
		blames(t, err, nodes, broken, f.says)
	}
	over(t, held, lockpipe.ErrReleased)

	f.mends(t, nodes, broken)
	eventually(t, func() bool { return held.Release(t.Context()) == nil },
		"a repeated release is not confirmed")
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// Goal: an error says of a node only what is true: healthy nodes did not "not answer within
// NodeTimeout" when nobody waited for them.
func TestHealthyNodesAreNotBlamedForTheFaultyOnes(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	c := connected(t, newClient(t, nodes))
	for i := range 3 {
		require.NoError(t, nodes.Kill(i))
	}
	for i := range 3 {
		down(t, c, i, "refused")
	}
	_, err := c.TryAcquire(t.Context(), "k")
	for _, n := range quorumError(t, err).Nodes {
		if n.Node == address(nodes, 3) || n.Node == address(nodes, 4) {
			require.NotContains(t, n.Err.Error(), "no answer within",
				"%s is healthy, and nobody waited for it", n.Node)
		}
	}
}

// Goal: where more nodes fail than it takes to miss the quorum, each of them is named with what was
// wrong there, also the last.
func TestEachOfManyFaultyNodesIsNamedWithItsOwnError(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	c := connected(t, newClient(t, nodes))
	held := try(t, c, "held")
	for i := range nodes.Len() {
		require.NoError(t, nodes.Kill(i))
	}
	for i := range nodes.Len() {
		down(t, c, i, "refused")
	}
	_, err := c.TryAcquire(t.Context(), "k")
	blames(t, err, nodes, span(0, 5), "refused")
	blames(t, held.Extend(t.Context(), longTTL), nodes, span(0, 5), "refused")
	blames(t, held.Release(t.Context()), nodes, span(0, 5), "refused")
}

// Goal: calls that wait longer than the client needs to give up a silent connection end with
// ErrNoQuorum that does not look like a deadline of the caller.
func TestAGivenUpConnectionIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	held := try(t, c, "held")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	extended := later(func() error { return held.Extend(context.Background(), longTTL) })
	_, err := c.TryAcquire(t.Context(), "k")
	blames(t, err, nodes, []int{0, 1}, "")
	blames(t, receive(t, extended, "Extend does not return"), nodes, []int{0, 1}, "")
	_, err = c.TryAcquire(t.Context(), "k")
	blames(t, err, nodes, []int{0, 1}, "")
	require.NoError(t, nodes.Thaw(0))
	require.NoError(t, nodes.Thaw(1))
	eventually(t, func() bool { return allUp(c) }, "the nodes do not come back")
	require.NoError(t, held.Release(t.Context()))
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// Goal: one caller's forbidden key fails that caller alone, though all share their trips.
func TestAForbiddenKeyFailsOnlyItsOwnCaller(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	for i := range nodes.Len() {
		do(t, nodes, i, "ACL", "SETUSER", "default", "resetkeys", "~"+prefix+"allowed:*",
			"~"+prefix+"barrier:*")
	}
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("allowed:%d", i)
		if i%10 == 0 {
			keys[i] = fmt.Sprintf("forbidden:%d", i)
		}
	}
	for i, r := range c.TryAcquireEach(t.Context(), keys) {
		if i%10 == 0 {
			require.ErrorContains(t, r.Err, "NOPERM")
			blames(t, r.Err, nodes, nil, "")
			continue
		}
		require.NoError(t, r.Err, r.Key)
		require.NoError(t, r.Lease.Extend(t.Context(), longTTL))
		require.NoError(t, r.Lease.Release(t.Context()))
	}
	nothingLeft(t, nodes)
}

// Goal: a holder on a majority is told as ErrHeld with its key and the nodes that have it, though
// the minority is dead.
func TestAHolderIsToldThoughAMinorityIsDead(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 5; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes := lockpipetest.StartRealT(t, n)
			c := connected(t, newClient(t, nodes))
			quorum := n/2 + 1
			for i := range quorum {
				do(t, nodes, i, "SET", prefix+"k2", "another", "PX", "60000")
			}
			for i := quorum; i < n; i++ {
				require.NoError(t, nodes.Kill(i))
			}
			_, err := c.TryAcquireAll(t.Context(), []string{"k1", "k2", "k3"})
			require.ErrorIs(t, err, lockpipe.ErrHeld)
			require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
			var held *lockpipe.HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, []string{"k2"}, held.Keys)
			require.Subset(t, addresses(nodes, span(0, quorum)), held.Nodes)
			require.GreaterOrEqual(t, len(held.Nodes), n-n/2,
				"that many refusals make a quorum impossible")
			_, err = c.TryAcquire(t.Context(), "k2")
			require.ErrorIs(t, err, lockpipe.ErrHeld)
			require.ErrorAs(t, err, &held)
			require.Equal(t, []string{"k2"}, held.Keys)
			nothingOfOurs(t, nodes, span(0, quorum), "k2")
		})
	}
}

// nothingOfOurs waits until the foreign key is the only one on the nodes, and wants it untouched.
func nothingOfOurs(t *testing.T, nodes *lockpipetest.Nodes, which []int, foreign string) {
	t.Helper()
	for _, i := range which {
		eventually(t, func() bool {
			keys, err := ownKeys(nodes, i)
			return err == nil && len(keys) == 1 && keys[0] == prefix+foreign
		}, "node %d has something else than %s, or lost it", i, foreign)
		require.Equal(t, "another", value(t, nodes, i, foreign))
	}
}

// Goal: a token that was set by hand, as another Redlock client does, excludes us on a majority and
// not on a minority, and none of our clean-ups, extensions and releases touches it.
func TestAForeignTokenIsNeverTouched(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	c := connected(t, newClient(t, nodes))
	for i := range 3 {
		do(t, nodes, i, "SET", prefix+"majority", "another", "NX", "PX", "600000")
	}
	for i := range 2 {
		do(t, nodes, i, "SET", prefix+"minority", "another", "NX", "PX", "600000")
	}
	_, err := c.TryAcquire(t.Context(), "majority")
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	_, err = c.TryAcquireAll(t.Context(), []string{"free", "majority"})
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	l, err := c.TryAcquireAll(t.Context(), []string{"minority", "free"})
	require.NoError(t, err)
	require.NoError(t, l.Extend(t.Context(), longTTL))
	require.NoError(t, l.Release(t.Context()))
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes, 3, 4)
	for i := range 3 {
		require.Equal(t, "another", value(t, nodes, i, "majority"))
		require.Greater(t, do(t, nodes, i, "PTTL", prefix+"majority"), int64(500_000))
	}
	for i := range 2 {
		require.Equal(t, "another", value(t, nodes, i, "minority"))
		require.Greater(t, do(t, nodes, i, "PTTL", prefix+"minority"), int64(500_000))
	}
	nothingOfOurs(t, nodes, []int{2}, "majority")
}

// Goal: a key of another Redis type counts as held, and stays what it is.
func TestAKeyOfAnotherTypeCountsAsHeld(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	kinds := map[string][]string{
		"list": {"RPUSH", "v"}, "hash": {"HSET", "f", "v"}, "set": {"SADD", "v"}, "zset": {
			"ZADD",
			"1", "v",
		}, "stream": {"XADD", "*", "f", "v"},
	}
	for kind, command := range kinds {
		for i := range nodes.Len() {
			do(t, nodes, i, append([]string{command[0], prefix + kind}, command[1:]...)...)
		}
		var held *lockpipe.HeldError
		_, err := c.TryAcquire(t.Context(), kind)
		require.ErrorAs(t, err, &held)
		require.Equal(t, []string{kind}, held.Keys)
		_, err = c.TryAcquireAll(t.Context(), []string{"free", kind})
		require.ErrorAs(t, err, &held)
		require.Equal(t, []string{kind}, held.Keys)
		for i := range nodes.Len() {
			require.Equal(t, kind, do(t, nodes, i, "TYPE", prefix+kind))
		}
	}
	for i := range nodes.Len() {
		eventually(t, func() bool {
			keys, err := ownKeys(nodes, i)
			return err == nil && len(keys) == len(kinds)
		}, "node %d has something of ours", i)
	}
}

// Goal: a held key that turned into another type on a minority is like one that was taken there:
// extension and release go on.
func TestAKeyThatTurnedIntoAnotherTypeOnAMinority(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	l := try(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	do(t, nodes, 0, "DEL", prefix+"k")
	do(t, nodes, 0, "RPUSH", prefix+"k", "v")
	require.NoError(t, l.Extend(t.Context(), longTTL))
	require.NoError(t, l.Release(t.Context()))
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes, 1, 2)
	require.Equal(t, "list", do(t, nodes, 0, "TYPE", prefix+"k"))
}

// Goal: a client is made while all its nodes are down, its calls say so, and each node joins by
// itself when it comes up.
func TestNodesThatComeUpLaterJoinByThemselves(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	for i := range nodes.Len() {
		require.NoError(t, nodes.Kill(i))
	}
	c := newClient(t, nodes, shortMaxTTL)
	_, err := c.TryAcquire(t.Context(), "k")
	quorumError(t, err)
	for i := range nodes.Len() {
		down(t, c, i, "refused")
		require.Equal(t, address(nodes, i), c.Nodes()[i].Addr)
	}
	waiting := later(func() error {
		l, err := c.Acquire(context.Background(), "waiting")
		_ = l.Release(context.Background())
		return err
	})
	for i := range nodes.Len() {
		require.NoError(t, nodes.Restart(i))
		eventually(t, func() bool { return c.Nodes()[i].State == lockpipe.NodeUp },
			"node %d does not join", i)
		require.NoError(t, c.Nodes()[i].Err)
	}
	require.NoError(t, receive(t, waiting, "the call that waited for the nodes does not get its "+
		"lease"))
	require.NoError(t, try(t, c, "k").Release(t.Context()))
	nothingLeft(t, nodes)
}

// shortMaxTTL keeps a node that restarts empty from being mistrusted for longer than a test lasts.
func shortMaxTTL(cfg *lockpipe.Config) {
	cfg.MaxTTL, cfg.TTL, cfg.NodeTimeout = 4*time.Second, 4*time.Second, 2*time.Second
}

// Goal: the first call after New works, without waiting for the nodes by hand.
func TestTheFirstCallAfterNewWorks(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 5)
	for range 5 {
		c := newClient(t, nodes)
		require.NoError(t, try(t, c, "k").Release(t.Context()))
		require.NoError(t, c.Close(t.Context()))
	}
}

// Goal: a node that restarts empty is seen as lost, comes back by itself, and takes part again.
func TestANodeThatRestartsEmptyRejoins(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, shortMaxTTL))
	for i := range nodes.Len() { // one after another, so that a quorum is there all the time
		require.NoError(t, nodes.Kill(i))
		eventually(t, func() bool { return c.Nodes()[i].State != lockpipe.NodeUp },
			"node %d is not missed", i)
		require.NoError(t, try(t, c, "meanwhile").Release(t.Context()))
		require.NoError(t, nodes.Restart(i))
		eventually(t, func() bool { return c.Nodes()[i].State == lockpipe.NodeUp },
			"node %d does not come back", i)
	}
	l := try(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	require.NoError(t, l.Release(t.Context()))
	nothingLeft(t, nodes)
}

// Goal: an extension gives a restarted node the keys again, and its own vote is not needed for
// that.
func TestAnExtensionRefillsANodeThatRestarted(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	onEvery(t, nodes, span(0, 3), "a", l.Token())
	require.NoError(t, nodes.Restart(2))
	require.NoError(t, l.Extend(t.Context(), longTTL))
	lasting(t, l)
	require.NoError(t, l.Release(t.Context()))
	nothingLeft(t, nodes)
}

// Goal: any number of nodes decides as soon as the silent ones cannot change the outcome, without
// waiting for them at all. Time is virtual, so no time at all may pass; and where they can change
// it, it is the node timeout that passes.
func TestADecisionDoesNotWaitForVotesThatCannotChangeIt(t *testing.T) {
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
			inBubble(t, test.nodes, func(t *testing.T, v *virtual, c *lockpipe.Client) {
				v.silence(span(test.nodes-test.silent, test.nodes)...)
				for i := range test.held {
					v.set(t, i, "k", "another")
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
			}, timeout(limit))
		})
	}
}

// Goal: the lease ends for its holder before its keys can expire on any node, by the local clock,
// though nobody asks.
func TestALeaseEndsForItsHolderBeforeItDoesOnTheNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		begin := time.Now()
		l := try(t, c, "k", lockpipe.WithTTL(10*time.Second))
		require.Equal(t, begin.Add(10*time.Second-100*time.Millisecond-2*time.Millisecond),
			l.Until().Round(0))
		<-l.Done()
		require.Equal(t, 9898*time.Millisecond, time.Since(begin))
		over(t, l, lockpipe.ErrExpired)
		require.Equal(t, 102*time.Millisecond, v.ttl(0, "k"), "the node let go first")
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
	})
}

// Goal: two clients with the load of many callers never hold one key at the same time while nodes
// come and go.
func TestNobodyHoldsTheSameKeyTwiceWhileNodesComeAndGo(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	clients := []*lockpipe.Client{
		connected(t, newClient(t, nodes)),
		connected(t, newClient(t, nodes)),
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
		eventually(t, func() bool { return rounds.Load() > seen+50 },
			"no progress with a frozen node")
		require.NoError(t, nodes.Thaw(i))
		eventually(t, func() bool { return rounds.Load() > seen+100 },
			"no progress with a thawed node")
	}
	cancel()
	workers.Wait()
	require.Zero(t, twice.Load())
	for _, c := range clients {
		caughtUp(t, c, nodes)
	}
	nothingLeft(t, nodes)
}

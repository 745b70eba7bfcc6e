package lockpipe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// fault is one way for a master to have a bad day.
type fault struct {
	name string
	says string // is in the error of each broken node
	// strike breaks node i, and fix makes it as good as before. Both return when it has happened.
	strike, fix func(t *testing.T, nodes *lockpipetest.Nodes, i int)
	noticed     bool // the client sees the node as down before the test continues
	extends     bool // a broken node still extends
	releases    bool // a broken node still releases
}

// commands is a strike or fix by commands that the node confirms.
func commands(commands ...string) func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	return func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
		t.Helper()
		for _, command := range commands {
			do(t, nodes, i, strings.Fields(command)...)
		}
	}
}

// mayAcquire permits the commands that acquire, with "+", or forbids them, with "-".
func mayAcquire(sign string) func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	return func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
		t.Helper()
		do(t, nodes, i, "ACL", "SETUSER", "default", sign+"set")
		_, err := nodes.Do(i, "ACL", "SETUSER", "default", sign+"msetex")
		if err != nil {
			require.ErrorContains(t, err, "Unknown command", "a server without MSETEX")
		}
	}
}

var faults = []fault{
	{
		name: "READONLY", says: "READONLY",
		strike: commands("REPLICAOF 127.0.0.1 1"), fix: commands("REPLICAOF NO ONE"),
	},
	{
		name: "OOM", says: "OOM", extends: true, releases: true,
		strike: commands("CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1"),
		fix:    commands("CONFIG SET maxmemory 0"),
	},
	{
		name: "NOAUTH", says: "NOAUTH", noticed: true,
		strike: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			converse(t, nodes, i, "CONFIG SET requirepass secret", "CLIENT KILL TYPE normal")
		},
		fix: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			converse(t, nodes, i, "AUTH secret", `CONFIG SET requirepass ""`)
		},
	},
	{
		name: "NOPERM for SET", says: "command", extends: true, releases: true,
		strike: mayAcquire("-"), fix: mayAcquire("+"),
	},
	{
		name: "NOPERM for all that is needed", says: "NOPERM",
		strike: commands("ACL SETUSER default -@write -@scripting"),
		fix:    commands("ACL SETUSER default +@all"),
	},
	{
		name: "NOPERM for the keys", says: "NOPERM",
		strike: commands("ACL SETUSER default resetkeys ~elsewhere:*"),
		fix:    commands("ACL SETUSER default allkeys"),
	},
	{name: "LOADING", says: "LOADING", noticed: true, strike: startLoading, fix: endLoading},
	{name: "BUSY", says: "BUSY", strike: startScript, fix: endScript},
	{
		name: "refused", says: "refused", noticed: true,
		strike: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
			require.NoError(t,
				nodes.Kill(i))
		},
		fix: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
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
		fix: func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
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
	do(t, nodes, i, "CONFIG", "SET", "rdbcompression", "no")
	_, err := nodes.Do(i, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
	if err != nil {
		require.ErrorContains(t, err, "Unsupported CONFIG parameter")
		t.Skip("a server before 7.0 answers too rarely while it loads")
	}
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

func (f fault) fixes(t *testing.T, nodes *lockpipetest.Nodes, which []int) {
	t.Helper()
	for _, i := range which {
		f.fix(t, nodes, i)
	}
}

// sizes are the numbers of nodes that a fault is tried on.
func (f fault) sizes() []int {
	switch f.name {
	case "refused", "silent", "READONLY":
		return []int{1, 5}
	}
	return []int{3}
}

// The goal: no caller notices a fault of a minority. When the faulty nodes are well again, they get
// what they missed.
func TestNodes_AFaultyMinorityIsNotNoticed(t *testing.T) {
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
	if n > 3 || f.name == "silent" {
		skipIfShort(t, "faults of five servers, and silent ones")
	}
	nodes := servertest.Start(t, n)
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
	f.fixes(t, nodes, broken)
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// The goal: a fault of a majority is ErrNoQuorum in every call. The error names each faulty node
// with its own fault. It is neither ErrHeld nor the caller's deadline. When the fault is over,
// nothing is left of the attempts.
func TestNodes_AFaultyMajorityIsNoQuorum(t *testing.T) {
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
	if n > 3 || f.name == "silent" {
		skipIfShort(t, "faults of five servers, and silent ones")
	}
	nodes := servertest.Start(t, n)
	limit := 10 * time.Second
	if f.name == "silent" { // nothing but the limit ends these calls
		limit = 300 * time.Millisecond
	}
	c := connected(t, newClient(t, nodes, timeout(limit), f.unguarded))
	held := take(t, c, "held")
	onEvery(t, nodes, span(0, n), "held", held.Token())
	broken := span(0, n/2+1)
	f.strikes(t, c, nodes, broken)

	for call, acquire := range acquiring {
		if call == "Do" || call == "DoAll" {
			continue // they are Acquire and AcquireAll
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

	f.fixes(t, nodes, broken)
	eventually(t, func() bool { return held.Release(t.Context()) == nil },
		"a repeated release is not confirmed")
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// The goal: an error says of a node only what is true. A healthy node did not "not answer within
// NodeTimeout" if nobody waited for it.
func TestNodes_HealthyOnesAreNotBlamedForTheFaultyOnes(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
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

// The goal: if more nodes fail than it takes to miss the quorum, the error names each of them with
// its own fault.
func TestNodes_EachFaultyOneIsNamedWithItsOwnError(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
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

// The goal: one caller's forbidden key fails that caller alone, though all share their trips.
func TestNodes_AForbiddenKeyFailsOnlyItsOwnCaller(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
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

// The goal: if a majority has a holder and the minority is dead, the call returns ErrHeld with the
// key and the nodes that have it.
func TestNodes_AHolderIsReportedThoughAMinorityIsDead(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, n)
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

// The goal: if a client may not call scripts, or not load them, the error names the command. When
// it may, it deletes what it could not delete before.
func TestNodes_AForbiddenCommandIsNamed(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"evalsha", "script"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 3)
			c := connected(t, newClient(t, nodes))
			held, err := c.TryAcquireAll(t.Context(), []string{"held", "too"})
			require.NoError(t, err)
			for i := range nodes.Len() {
				do(t, nodes, i, "SCRIPT", "FLUSH")
				do(t, nodes, i, "ACL", "SETUSER", "default", "-"+command)
			}
			// Even a server that has MSETEX needs the script to name the key.
			_, err = c.TryAcquireAll(t.Context(), []string{"a", "held"})
			blames(t, err, nodes, nil, "")
			require.ErrorContains(t, err, "NOPERM")
			require.ErrorContains(t, err, command)
			err = held.Release(t.Context())
			blames(t, err, nodes, nil, "")
			require.ErrorContains(t, err, "NOPERM")
			require.ErrorContains(t, err, command)
			for i := range nodes.Len() {
				do(t, nodes, i, "ACL", "SETUSER", "default", "+"+command)
			}
			eventually(t, func() bool { return held.Release(t.Context()) == nil },
				"the release is not confirmed")
			nothingLeft(t, nodes)
		})
	}
}

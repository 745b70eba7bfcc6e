package nodes

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
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
			kit.Do(t, nodes, i, strings.Fields(command)...)
		}
	}
}

// mayAcquire permits the commands that acquire, with "+", or forbids them, with "-".
func mayAcquire(sign string) func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	return func(t *testing.T, nodes *lockpipetest.Nodes, i int) {
		t.Helper()
		kit.Do(t, nodes, i, "ACL", "SETUSER", "default", sign+"set")
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
	kit.Do(t, nodes, i, "CONFIG", "SET", "dir", t.TempDir())
	kit.Do(t, nodes, i, "CONFIG", "SET", "rdbcompression", "no")
	_, err := nodes.Do(i, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
	if err != nil {
		require.ErrorContains(t, err, "Unsupported CONFIG parameter")
		t.Skip("a server before 7.0 answers too rarely while it loads")
	}
	kit.Do(t, nodes, i, "DEBUG", "POPULATE", "2000", "filling", "1024")
	kit.Do(t, nodes, i, "CONFIG", "SET", "key-load-delay", "20000")
	go func() { _, _ = nodes.Do(i, "DEBUG", "RELOAD") }()
	kit.Eventually(t, func() bool { return complains(nodes, i, "LOADING") }, "node %d does not load", i)
}

func endLoading(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	kit.Do(t, nodes, i, "CONFIG", "SET", "key-load-delay", "0")
	kit.Eventually(t, func() bool { return !complains(nodes, i, "") }, "node %d loads for ever", i)
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
		kit.SkipIfShort(t, "faults of five servers, and silent ones")
	}
	nodes := servertest.Start(t, n)
	c := kit.Connected(t, kit.NewClient(t, nodes, f.unguarded))
	old, older := kit.Try(t, c, "old"), kit.Try(t, c, "older")
	kit.OnEvery(t, nodes, kit.Span(0, n), "old", old.Token())
	broken := kit.Span(0, (n-1)/2)
	f.strikes(t, c, nodes, broken)

	require.NoError(t, old.Extend(t.Context(), kit.LongTTL))
	one := kit.Try(t, c, "one")
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
		require.NoError(t, l.Extend(t.Context(), kit.LongTTL), l.Key())
		kit.Lasting(t, l)
	}
	require.NoError(t, older.Release(t.Context()))
	for _, l := range leases {
		require.NoError(t, l.Release(t.Context()), l.Key())
		kit.Over(t, l, lockpipe.ErrReleased)
		require.NoError(t, l.Release(t.Context()), l.Key())
	}
	again := kit.Try(t, c, "one")
	require.NoError(t, again.Release(t.Context()))
	f.fixes(t, nodes, broken)
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
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
		kit.SkipIfShort(t, "faults of five servers, and silent ones")
	}
	nodes := servertest.Start(t, n)
	limit := 10 * time.Second
	if f.name == "silent" { // nothing but the limit ends these calls
		limit = 300 * time.Millisecond
	}
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(limit), f.unguarded))
	held := kit.Take(t, c, "held")
	kit.OnEvery(t, nodes, kit.Span(0, n), "held", held.Token())
	broken := kit.Span(0, n/2+1)
	f.strikes(t, c, nodes, broken)

	for call, acquire := range kit.Acquiring {
		if call == "Do" || call == "DoAll" {
			continue // they are Acquire and AcquireAll
		}
		err := acquire(t.Context(), c, []string{call}, lockpipe.WithMaxAttempts(1))
		kit.Blames(t, err, nodes, broken, f.says)
	}
	_, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
	kit.Blames(t, err, nodes, broken, f.says)
	for _, r := range c.TryAcquireEach(t.Context(), []string{"x", "y"}) {
		kit.Blames(t, r.Err, nodes, broken, f.says)
		require.Nil(t, r.Lease)
	}
	err = held.Extend(t.Context(), kit.LongTTL)
	if f.extends {
		require.NoError(t, err)
	} else {
		kit.Blames(t, err, nodes, broken, f.says)
	}
	kit.Lasting(t, held)
	err = held.Release(t.Context())
	if f.releases {
		require.NoError(t, err)
	} else {
		kit.Blames(t, err, nodes, broken, f.says)
	}
	kit.Over(t, held, lockpipe.ErrReleased)

	f.fixes(t, nodes, broken)
	kit.Eventually(t, func() bool { return held.Release(t.Context()) == nil },
		"a repeated release is not confirmed")
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
}

// The goal: an error says of a node only what is true. A healthy node did not "not answer within
// NodeTimeout" if nobody waited for it.
func TestNodes_HealthyOnesAreNotBlamedForTheFaultyOnes(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	for i := range 3 {
		require.NoError(t, nodes.Kill(i))
	}
	for i := range 3 {
		down(t, c, i, "refused")
	}
	_, err := c.TryAcquire(t.Context(), "k")
	for _, n := range kit.QuorumError(t, err).Nodes {
		if n.Node == kit.Address(nodes, 3) || n.Node == kit.Address(nodes, 4) {
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
	c := kit.Connected(t, kit.NewClient(t, nodes))
	held := kit.Try(t, c, "held")
	for i := range nodes.Len() {
		require.NoError(t, nodes.Kill(i))
	}
	for i := range nodes.Len() {
		down(t, c, i, "refused")
	}
	_, err := c.TryAcquire(t.Context(), "k")
	kit.Blames(t, err, nodes, kit.Span(0, 5), "refused")
	kit.Blames(t, held.Extend(t.Context(), kit.LongTTL), nodes, kit.Span(0, 5), "refused")
	kit.Blames(t, held.Release(t.Context()), nodes, kit.Span(0, 5), "refused")
}

// The goal: one caller's forbidden key fails that caller alone, though all share their trips.
func TestNodes_AForbiddenKeyFailsOnlyItsOwnCaller(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	for i := range nodes.Len() {
		kit.Do(t, nodes, i, "ACL", "SETUSER", "default", "resetkeys", "~"+kit.Prefix+"allowed:*",
			"~"+kit.Prefix+"barrier:*")
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
			kit.Blames(t, r.Err, nodes, nil, "")
			continue
		}
		require.NoError(t, r.Err, r.Key)
		require.NoError(t, r.Lease.Extend(t.Context(), kit.LongTTL))
		require.NoError(t, r.Lease.Release(t.Context()))
	}
	kit.NothingLeft(t, nodes)
}

// The goal: if a majority has a holder and the minority is dead, the call returns ErrHeld with the
// key and the nodes that have it.
func TestNodes_AHolderIsReportedThoughAMinorityIsDead(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, n)
			c := kit.Connected(t, kit.NewClient(t, nodes))
			quorum := n/2 + 1
			for i := range quorum {
				kit.Do(t, nodes, i, "SET", kit.Prefix+"k2", "another", "PX", "60000")
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
			require.Subset(t, kit.Addresses(nodes, kit.Span(0, quorum)), held.Nodes)
			require.GreaterOrEqual(t, len(held.Nodes), n-n/2,
				"that many refusals make a quorum impossible")
			_, err = c.TryAcquire(t.Context(), "k2")
			require.ErrorIs(t, err, lockpipe.ErrHeld)
			require.ErrorAs(t, err, &held)
			require.Equal(t, []string{"k2"}, held.Keys)
			kit.NothingOfOurs(t, nodes, kit.Span(0, quorum), "k2")
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
			c := kit.Connected(t, kit.NewClient(t, nodes))
			held, err := c.TryAcquireAll(t.Context(), []string{"held", "too"})
			require.NoError(t, err)
			for i := range nodes.Len() {
				kit.Do(t, nodes, i, "SCRIPT", "FLUSH")
				kit.Do(t, nodes, i, "ACL", "SETUSER", "default", "-"+command)
			}
			// Even a server that has MSETEX needs the script to name the key.
			_, err = c.TryAcquireAll(t.Context(), []string{"a", "held"})
			kit.Blames(t, err, nodes, nil, "")
			require.ErrorContains(t, err, "NOPERM")
			require.ErrorContains(t, err, command)
			err = held.Release(t.Context())
			kit.Blames(t, err, nodes, nil, "")
			require.ErrorContains(t, err, "NOPERM")
			require.ErrorContains(t, err, command)
			for i := range nodes.Len() {
				kit.Do(t, nodes, i, "ACL", "SETUSER", "default", "+"+command)
			}
			kit.Eventually(t, func() bool { return held.Release(t.Context()) == nil },
				"the release is not confirmed")
			kit.NothingLeft(t, nodes)
		})
	}
}

// startScript keeps the node busy with a script that never ends.
func startScript(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	kit.Do(t, nodes, i, "CONFIG", "SET", "lua-time-limit", "10") // as 6.2 calls it too
	go func() { _, _ = nodes.Do(i, "EVAL", "while true do end", "0") }()
	kit.Eventually(t, func() bool { return complains(nodes, i, "BUSY") }, "node %d is not busy", i)
}

func endScript(t *testing.T, nodes *lockpipetest.Nodes, i int) {
	t.Helper()
	kit.Do(t, nodes, i, "SCRIPT", "KILL")
	kit.Eventually(t, func() bool { return !complains(nodes, i, "") }, "node %d is busy for ever", i)
}

func complains(nodes *lockpipetest.Nodes, i int, word string) bool {
	_, err := nodes.Do(i, "PING")
	return err != nil && strings.Contains(err.Error(), word)
}

// converse sends commands in the inline form over one connection to node i, and wants none to be
// answered with an error.
func converse(t *testing.T, nodes *lockpipetest.Nodes, i int, commands ...string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", kit.Address(nodes, i), kit.Patient)
	require.NoError(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, command := range commands {
		_, err := fmt.Fprintf(conn, "%s\r\n", command)
		require.NoError(t, err)
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.NotEqual(t, byte('-'), line[0], "%s: %s", command, line)
	}
}

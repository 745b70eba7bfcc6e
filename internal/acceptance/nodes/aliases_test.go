package nodes

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/stretchr/testify/require"
)

// withNames runs a test in a bubble with so many servers, and a client that calls them by names.
func withNames(t *testing.T, n int, servers []int, test func(t *testing.T, v *kit.FakeNodes,
	c *lockpipe.Client),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, n)
		v.WithRunIDs()
		test(t, v, v.Client(t, v.UnderNames(servers)))
	})
}

// sameServer is how an error names two nodes that lead to one server.
var sameServer = regexp.MustCompile(`name-(\d):6379: is the same server as name-(\d):6379, and one `)

// namesTheServer wants an error to be no "held", and to name two of these nodes as one server.
func namesTheServer(t *testing.T, err error, names ...string) {
	t.Helper()
	require.NotErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	found := sameServer.FindStringSubmatch(err.Error())
	require.NotNil(t, found, err)
	require.NotEqual(t, found[1], found[2])
	require.Subset(t, names, found[1:])
}

// The goal: a value says which node it is for. A lease has one value on each server.
func TestAliases_AValueSaysWhichNodeItIsFor(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		one := v.Hold(t, c, "k")
		several, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		synctest.Wait()
		for i := range v.Nodes {
			char := string(ids.NodeChar(i))
			require.Equal(t, one.Token()+char, v.Value(i, "k"))
			require.Equal(t, several.Token()+char, v.Value(i, "b"))
		}
		require.NoError(t, one.Extend(t.Context(), kit.LongTTL))
		require.NoError(t, several.Extend(t.Context(), kit.LongTTL))
		kit.Release(t, one)
		kit.Release(t, several)
		v.NothingLeft(t)
	})
}

// The goal: a server under two names has one vote for an acquire. Without the third node there is
// no quorum, the error names the two nodes, and nothing is left.
func TestAliases_HaveOneVoteForAnAcquire(t *testing.T) {
	t.Parallel()
	withNames(t, 2, []int{0, 0, 1}, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for _, keys := range [][]string{{"k"}, {"a", "b"}} {
			l, err := c.TryAcquireAll(t.Context(), keys)
			require.NoError(t, err, "the server and node 2 are a quorum")
			synctest.Wait()
			require.Contains(t, []string{l.Token() + "A", l.Token() + "B"}, v.Value(0, keys[0]))
			require.Equal(t, l.Token()+"C", v.Value(1, keys[0]))
			require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
			kit.Release(t, l)
			synctest.Wait()
			require.Empty(t, locks(v, 0))
			v.Fail(1, kit.OutOfMemory)
			_, err = c.TryAcquireAll(t.Context(), keys)
			namesTheServer(t, err, "0", "1")
			v.Heal(1)
			synctest.Wait()
			require.Empty(t, locks(v, 0))
		}
		_, err := c.TryAcquireAny(t.Context(), []string{"x", "y"})
		require.NoError(t, err)
	})
}

// The goal: a name that leads to another node's server is no spare node, and a probe does not count
// it. The log and Nodes name both.
func TestAliases_AreNotReadyForAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 2)
		v.WithRunIDs()
		var log kit.LockedBuffer
		servers := []int{0, 0, 1}
		c := v.Client(t, v.UnderNames(servers), kit.LogTo(&log))
		require.NoError(t, c.Ready(t.Context()))
		require.Zero(t, c.Stats().SpareNodes)
		require.ErrorContains(t, c.Nodes()[1].Err, "is the same server as "+kit.NameOf(0))
		require.Contains(t, log.String(), "two nodes have one vote")
		servers[2] = -1
		v.Drop(1)
		time.Sleep(time.Second)
		require.Equal(t, -1, c.Stats().SpareNodes)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		namesTheServer(t, c.Ready(ended), "0", "1")
	})
}

// The goal: names that all lead to one server are no quorum, whichever of them is first, and the
// attempt does not call its own token another's. With fencing it is the same.
func TestAliases_OfOneServerAloneAreNoQuorum(t *testing.T) {
	t.Parallel()
	for _, servers := range [][]int{{0, 0}, {0, 0, 0}, {0, 0, 0, 0, 0}} {
		withNames(t, 1, servers, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			for i := range 20 {
				_, err := c.TryAcquire(t.Context(), fmt.Sprint("k", i))
				namesTheServer(t, err, "0", "1", "2", "3", "4")
				_, err = c.TryAcquire(t.Context(), fmt.Sprint("f", i), lockpipe.WithFencing())
				require.NotErrorIs(t, err, lockpipe.ErrHeld)
				require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Acquire(ctx, "k")
			namesTheServer(t, err, "0", "1", "2", "3", "4")
		})
	}
}

// The goal: a key that another holds is held, although one of the servers has two names.
func TestAliases_AKeyOfAnotherIsHeld(t *testing.T) {
	t.Parallel()
	withNames(t, 2, []int{0, 0, 1}, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Set(0, "k", "another's")
		v.Set(1, "k", "another's")
		for range 10 {
			_, err := c.TryAcquire(t.Context(), "k")
			require.ErrorIs(t, err, lockpipe.ErrHeld)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Acquire(ctx, "k")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		v.Del(0, "k")
		v.Del(1, "k")
	})
}

// The goal: an extension counts a server once, whatever leads to it by then. If names lead to
// another node's server after the acquire, that server extends the lease for its own node alone.
func TestAliases_HaveOneVoteForAnExtension(t *testing.T) {
	t.Parallel()
	servers := []int{0, 1, 2}
	withNames(t, 3, servers, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		servers[0], servers[2] = 1, -1 // server 1 is what is left
		v.Drop(0, 2)
		time.Sleep(time.Second)
		require.Equal(t, lockpipe.NodeUp, c.Nodes()[0].State)
		err := l.Extend(t.Context(), kit.LongTTL)
		require.Error(t, err, "one server of three has extended the lease")
		require.NotErrorIs(t, err, lockpipe.ErrLost)
		servers[0], servers[2] = 0, 2
		v.Drop(1)
		time.Sleep(time.Second)
		require.Equal(t, lockpipe.NodeQuarantined, c.Nodes()[0].State, "server 0 has missed locks")
		require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
		_ = l.Release(t.Context()) // which name 0 can't confirm yet
		time.Sleep(2 * kit.LongTTL)
		require.Empty(t, locks(v, 1))
	})
}

// The goal: after two names have swapped their servers, no extension and no release touches a key
// for the wrong node. Another client gets the key when the lease is over, and not before.
func TestAliases_NamesThatSwapServers(t *testing.T) {
	t.Parallel()
	servers := []int{0, 1, 2}
	withNames(t, 3, servers, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t)
		l := v.Hold(t, c, "k")
		servers[0], servers[2] = 2, 0
		v.Drop(0, 2)
		time.Sleep(time.Second)
		require.True(t, kit.AllUp(c))
		require.Error(t, l.Extend(t.Context(), kit.LongTTL))
		require.Equal(t, []string{l.Token() + "A", l.Token() + "C"},
			[]string{v.Value(0, "k"), v.Value(2, "k")})
		_, err := other.TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		_ = l.Release(t.Context())
		require.Error(t, l.Err())
	})
}

// The goal: Peek counts a server that two names lead to once, and accepts the characters of a
// holder that has the nodes in another order.
func TestAliases_PeekCountsValues(t *testing.T) {
	t.Parallel()
	withNames(t, 2, []int{0, 0, 1}, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		require.Equal(t, 2, peeked(t, c, "k")[0].Nodes)
		require.True(t, peeked(t, c, "k")[0].Held)
		left := v.Value(0, "k")
		kit.Release(t, l)
		synctest.Wait()
		v.Set(0, "k", left)
		require.Equal(t, []lockpipe.KeyStatus{{Key: "k", Nodes: 1}}, peeked(t, c, "k"))
		v.Set(1, "k", l.Token()+"_")
		s := peeked(t, c, "k")[0]
		require.True(t, s.Held)
		require.Equal(t, ids.OwnerOf(l.Token()), s.Owner)
		v.Del(0, "k")
		v.Del(1, "k")
	})
}

// The goal: that a name has nothing to delete does not confirm the release of what its server has
// under another name, and has not deleted yet.
func TestAliases_ConfirmNoReleaseForEachOther(t *testing.T) {
	t.Parallel()
	withNames(t, 2, []int{0, 0, 1}, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for range 10 { // either name may be the one
			l := v.Hold(t, c, "k")
			require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
			synctest.Wait()
			own := v.Value(0, "k")
			resume := make(chan struct{})
			v.Intercept(0, func(command string, args []string) string {
				if command == "EVALSHA" && slices.Contains(args, own) {
					<-resume
				}
				return ""
			})
			err := l.Release(t.Context())
			synctest.Wait() // it has arrived under both names
			v.Intercept(0, nil)
			require.Equal(t, own, v.Value(0, "k"))
			namesTheServer(t, err, "0", "1")
			close(resume)
			time.Sleep(time.Second)
			require.NoError(t, l.Release(t.Context()))
			synctest.Wait()
			require.Empty(t, v.Value(0, "k"))
		}
	})
}

// locks are the keys of locks on server i.
func locks(v *kit.FakeNodes, i int) []string {
	return slices.DeleteFunc(v.Keys(i), func(key string) bool {
		return strings.HasPrefix(key, kit.Prefix+"lockpipe:")
	})
}

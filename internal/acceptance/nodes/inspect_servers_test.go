package nodes

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// several is what a finding says of a name that leads to two servers.
const several = "leads to more than one server"

// oneName is a network in which the name of the first node leads to the node that route returns,
// for each dial from 0.
func oneName(v *kit.FakeNodes, route func(dial int) (node int)) func(*lockpipe.Config) {
	var dials atomic.Int32
	return func(cfg *lockpipe.Config) {
		cfg.Nodes = v.URLs[:1]
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			return v.Nodes[route(int(dials.Add(1))-1)].Dial(), nil
		}
	}
}

// withTwoServers runs a test in a bubble with two nodes that show a run_id and were admitted.
func withTwoServers(t *testing.T, test func(t *testing.T, v *kit.FakeNodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 2)
		v.WithRunIDs()
		test(t, v)
	})
}

// inspectName inspects the one name without a client.
func inspectName(
	t *testing.T, v *kit.FakeNodes, route func(dial int) (node int),
) lockpipe.Inspection {
	t.Helper()
	all, err := lockpipe.Inspect(t.Context(), kit.Config(nil, []func(*lockpipe.Config){
		oneName(v, route),
	}))
	require.NoError(t, err)
	return all
}

// The goal: a name that leads to two servers in turns is an error with both run_ids, and one that
// leads to one server is none.
func TestInspect_FindsTwoServersBehindOneName(t *testing.T) {
	withTwoServers(t, func(t *testing.T, v *kit.FakeNodes) {
		all := inspectName(t, v, func(dial int) int { return dial % 2 })
		finds(t, all, v.URLs[0], lockpipe.SeverityError, several+" (run_id "+
			v.Nodes[1].RunID()+" answered, run_id "+v.Nodes[0].RunID()+" answered)")
		all = inspectName(t, v, func(int) int { return 0 })
		require.NotEqual(t, lockpipe.SeverityError, all.Worst(), "%v", all)
	})
}

// The goal: a server that restarts during the look is not taken for two.
func TestInspect_ARestartIsNotASecondServer(t *testing.T) {
	withTwoServers(t, func(t *testing.T, v *kit.FakeNodes) {
		var restarts atomic.Int32
		all := inspectName(t, v, func(dial int) int {
			if dial == 1 {
				v.Nodes[0].Restart()
				restarts.Add(1)
			}
			return 0
		})
		require.EqualValues(t, 1, restarts.Load())
		for _, f := range all {
			require.NotContains(t, f.Text, several)
		}
	})
}

// The goal: nor is a master that becomes a replica during the look, because the name leads to the
// next master now.
func TestInspect_AFailoverIsNotASecondServer(t *testing.T) {
	withTwoServers(t, func(t *testing.T, v *kit.FakeNodes) {
		asked := 0
		v.Intercept(0, func(command string, _ []string) string {
			if command != "INFO" {
				return ""
			}
			asked++
			role := map[bool]string{true: "master", false: "slave"}[asked == 1]
			return resptest.Bulk("run_id:" + v.Nodes[0].RunID() + "\r\nrole:" + role + "\r\n")
		})
		all := inspectName(t, v, func(dial int) int { return dial % 2 })
		require.Equal(t, 2, asked)
		for _, f := range all {
			require.NotContains(t, f.Text, several)
		}
	})
}

// The goal: a client compares with the server that votes for it.
func TestInspect_FindsAnotherServerThanTheVoter(t *testing.T) {
	withTwoServers(t, func(t *testing.T, v *kit.FakeNodes) {
		var at atomic.Int32
		c := v.Client(t, oneName(v, func(int) int { return int(at.Load()) }))
		at.Store(1)
		began := time.Now()
		all, err := c.Inspect(t.Context())
		require.NoError(t, err)
		finds(t, all, v.URLs[0], lockpipe.SeverityError, several+" (run_id "+
			v.Nodes[0].RunID()+" votes, run_id "+v.Nodes[1].RunID()+" answered)")
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		at.Store(0)
		all, err = c.Inspect(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, lockpipe.SeverityError, all.Worst(), "%v", all)
	})
}

// The goal: a client finds two servers that a proxy leads its connections to in turns, wherever its
// own turn is.
func TestInspect_FindsTwoServersInTurnsWithAClient(t *testing.T) {
	for first := range 2 {
		withTwoServers(t, func(t *testing.T, v *kit.FakeNodes) {
			c := v.Client(t, oneName(v, func(dial int) int { return (first + dial) % 2 }))
			for range 2 {
				all, err := c.Inspect(t.Context())
				require.NoError(t, err)
				finds(t, all, v.URLs[0], lockpipe.SeverityError, several)
			}
		})
	}
}

// The goal: a voter that is gone, and whose end shows late, is no second server.
func TestInspect_AVoterThatIsGoneIsNotASecondServer(t *testing.T) {
	withTwoServers(t, func(t *testing.T, v *kit.FakeNodes) {
		var at atomic.Int32
		c := v.Client(t, oneName(v, func(int) int { return int(at.Load()) }))
		at.Store(1)
		hung := make(chan struct{})
		defer func() { close(hung); synctest.Wait() }()
		v.Intercept(0, func(string, []string) string { <-hung; return "" })
		all, err := c.Inspect(t.Context())
		require.NoError(t, err)
		for _, f := range all {
			require.NotContains(t, f.Text, several)
		}
	})
}

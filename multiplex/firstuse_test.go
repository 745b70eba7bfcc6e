package multiplex

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: masters that are used for the first time vote at once, and have their names; also when
// several clients come at the same moment, and for a client that comes later.
func TestFirstUse_IsAtOnceForAllClients(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	for round := range 5 {
		prefix := fmt.Sprint(round, ":")
		var clients sync.WaitGroup
		for range 6 {
			clients.Go(func() {
				m := start(t, nodes.URLs(), func(c *Config) { c.Prefix = prefix })
				began, try := time.Now(), func() error {
					c := claim(prefix+fmt.Sprintf("%p", m), "t")
					return wait(m.Acquire(c, time.Minute, 1), context.Background())
				}
				err := try() // the first call works, but on a busy machine handshakes may be slow
				for err != nil && time.Since(began) < patient {
					err = try()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		clients.Wait()
		late := start(t, nodes.URLs(), func(c *Config) { c.Prefix = prefix })
		for i := range nodes.Len() {
			becomes(t, late, i, link.Up, "")
			require.Equal(t, runID(t, nodes, i), ask(t, nodes, i, "GET", prefix+
				"lockpipe:admitted"))
			require.EqualValues(t, -1, ask(t, nodes, i, "PTTL", prefix+"lockpipe:admitted"))
		}
	}
}

// The goal: while one node is missing there is no first use, since it may be the one that knows
// better. When it comes, all of them vote at once.
func TestFirstUse_WaitsForTheLastNode(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	require.NoError(t, nodes.Kill(2))
	m := start(t, nodes.URLs(), nil)
	waitsFor := "waiting for " + m.nodes[2].Link.Name() + " to decide whether the nodes are new: " +
		"until then, or MaxTTL, it does not vote"
	becomes(t, m, 0, link.Quarantined, waitsFor)
	status := becomes(t, m, 1, link.Quarantined, waitsFor)
	require.InDelta(t, time.Minute, time.Until(status.Until), float64(10*time.Second))
	require.False(t, m.QuorumReachable())
	require.Equal(t, -1, arbiterOf(m, "k", 0))
	err := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
	require.ErrorIs(t, err, ErrNoQuorum)
	require.ErrorContains(t, err, "quarantined until ")
	require.ErrorContains(t, err, ": "+waitsFor)
	require.ElementsMatch(t, []any{ids.AdmittedKey, ids.LayoutsKey},
		ask(t, nodes, 0, "KEYS", "*"),
		"no lock reached a quarantined node")
	require.NoError(t, nodes.Restart(2))
	up(t, m)
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
}

// The goal: one node with a name shows that the others have lost theirs: no first use.
func TestFirstUse_IsRuledOutByOneMarker(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	ask(t, nodes, 1, "SET", ids.AdmittedKey, runID(t, nodes, 1))
	m := start(t, nodes.URLs(), nil)
	becomes(t, m, 1, link.Up, "")
	becomes(t, m, 0, link.Quarantined, "")
	becomes(t, m, 2, link.Quarantined, "")
	require.Contains(t, ask(t, nodes, 0, "GET", ids.AdmittedKey), "new:",
		"it may be another client's first use, whose names are on their way")

	ask(t, nodes, 1, "SET", ids.AdmittedKey, "another")
	m = start(t, nodes.URLs(), nil)
	becomes(t, m, 1, link.Quarantined, "")
	require.False(t, m.peers.MayBeFirstUse(), "also when that name is gone later")
}

// The goal: a client whose nodes came up by waiting has admitted them as well: when they restart
// together, that is no first use.
func TestFirstUse_IsRuledOutByAnAdmission(t *testing.T) {
	notShort(t, "a node that was admitted after its wait")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	require.NoError(t, nodes.Kill(2))
	m := start(t, nodes.URLs(), waits(4*time.Second))
	becomes(t, m, 0, link.Quarantined, "")
	becomes(t, m, 0, link.Up, "")
	require.False(t, m.peers.MayBeFirstUse())
}

// The goal: a client that knows of the loss keeps one that knows nothing from taking it for the
// first use, until the quarantine is over.
func TestFirstUse_IsRuledOutByAClientThatKnowsOfALoss(t *testing.T) {
	notShort(t, "a client that comes after a loss")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	knowing := start(t, nodes.URLs(), waits(5*time.Second))
	up(t, knowing)
	for i := range nodes.Len() {
		require.NoError(t, nodes.Kill(i))
	}
	restarted := time.Now()
	for i := range nodes.Len() {
		require.NoError(t, nodes.Restart(i))
		becomes(t, knowing, i, link.Quarantined, whyRestarted)
		require.Regexp(t, "^lost:", ask(t, nodes, i, "GET", ids.AdmittedKey))
	}
	late := start(t, nodes.URLs(), waits(5*time.Second))
	for i := range nodes.Len() {
		becomes(t, late, i, link.Quarantined, whyWaits)
	}
	up(t, knowing)
	up(t, late)
	require.GreaterOrEqual(t, time.Since(restarted), 5*time.Second)
}

// The goal: one that found no key anywhere, and then one that says so, makes no first use of
// what it saw before.
func TestFirstUse_ALossRecordEndsIt(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	var once sync.Once
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &spy{Conn: conn, wrote: func(p []byte) {
				if settles(p) { // the end of the first use
					once.Do(func() {
						for i := range nodes.Len() {
							_, _ = nodes.Do(i, "SET", ids.AdmittedKey, "lost:1")
						}
					})
				}
			}}, err
		}
	})
	for i := range nodes.Len() {
		becomes(t, m, i, link.Quarantined, "")
	}
}

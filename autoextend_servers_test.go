package lockpipe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// realTTL leaves a machine that is busy with other things two seconds and more between the last
// moment of an automatic extension and the end.
const realTTL = 4 * time.Second

// gone says that an extension found the keys gone, and that the time did not just run out.
const gone = "do not hold it any more"

// holdOnAll takes a lease that is extended automatically, and waits until all nodes have it.
func holdOnAll(t *testing.T, c *lockpipe.Client, nodes *lockpipetest.Nodes) *lockpipe.Lease {
	t.Helper()
	l := take(t, c, "k", auto(realTTL, time.Hour)...)
	onEvery(t, nodes, span(0, nodes.Len()), "k", l.Token())
	return l
}

// extendedAgain waits for automatic extensions that begin from now on.
func extendedAgain(t *testing.T, c *lockpipe.Client, n uint64) {
	t.Helper()
	before := c.Stats().Extended
	eventually(t, func() bool { return c.Stats().Extended >= before+n },
		"the lease is not extended")
}

// takeFromNode deletes the key on node i. If foreign is the time of another's key in milliseconds,
// that key is there instead, without an end if the time is "0".
func takeFromNode(t *testing.T, nodes *lockpipetest.Nodes, i int, foreign string) {
	t.Helper()
	switch foreign {
	case "":
		do(t, nodes, i, "DEL", prefix+"k")
	case "0":
		do(t, nodes, i, "SET", prefix+"k", "another")
	default:
		do(t, nodes, i, "SET", prefix+"k", "another", "PX", foreign)
	}
}

// The goal: a lease whose keys are gone from a majority is found lost by the next automatic
// extension, before its time is over. OnLost is called, the minority's keys are released, and what
// another has on the nodes stays as it is.
func TestAutoExtend_FindsALeaseLost(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"deleted":                          "",
		"another's":                        "600000",
		"another's, without a time to end": "0",
	}
	for name, foreign := range tests {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s on %d of %d", name, n/2+1, n), func(t *testing.T) {
				if n != 3 || foreign != "" {
					skipIfShort(t, "other numbers of servers, and keys of others there")
				}
				t.Parallel()
				nodes := servertest.Start(t, n)
				var told endings
				c := connected(t, newClient(t, nodes, onLost(told.tell)))
				l := holdOnAll(t, c, nodes)
				// If an extension comes between two of these commands, it sets the first key again,
				// and the lease is not lost. So they are repeated until it is.
				require.True(t, poll(func() bool {
					for i := range n/2 + 1 {
						takeFromNode(t, nodes, i, foreign)
					}
					return l.Err() != nil
				}), "the lease does not end")
				over(t, l, lockpipe.ErrLost)
				require.ErrorContains(t, l.Err(), gone)
				eventually(t, func() bool { return len(told.all()) > 0 }, "OnLost is not called")
				require.Equal(t, l, told.all()[0].lease)
				require.Equal(t, l.Err(), told.all()[0].err)
				require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
				caughtUp(t, c, nodes)
				if foreign == "" {
					nothingLeft(t, nodes)
					return
				}
				for i := n/2 + 1; i < n; i++ {
					nothingLeft(t, nodes, i)
				}
				for i := range n/2 + 1 {
					require.Equal(t, "another", value(t, nodes, i, "k"), "node %d", i)
					ttl, _ := do(t, nodes, i, "PTTL", prefix+"k").(int64)
					require.Equal(t, foreign == "0", ttl == -1, "node %d", i)
					require.True(t, ttl == -1 || ttl > 500_000, "node %d: %d", i, ttl)
				}
				require.Len(t, told.all(), 1)
			})
		}
	}
}

// The goal: a lease whose keys are gone from a minority is kept, and the keys are set again there.
func TestAutoExtend_RefillsAMinority(t *testing.T) {
	skipIfShort(t, "automatic extensions that refill servers")
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, n)
			var told endings
			c := connected(t, newClient(t, nodes, onLost(told.tell)))
			l := holdOnAll(t, c, nodes)
			for range 2 {
				for i := range n / 2 {
					do(t, nodes, i, "DEL", prefix+"k")
				}
				onEvery(t, nodes, span(0, n), "k", l.Token())
				extendedAgain(t, c, 1)
			}
			lasting(t, l)
			require.NoError(t, l.Release(t.Context()))
			caughtUp(t, c, nodes)
			nothingLeft(t, nodes)
			require.Empty(t, told.all())
		})
	}
}

// The goal: a server that a script keeps busy for half of a TTL ends no lease, whether it says so
// or not. It has nothing of the lease after the release.
func TestAutoExtend_ABusyServerCostsNoLease(t *testing.T) {
	skipIfShort(t, "a server that is busy for half of a TTL")
	t.Parallel()
	for name, says := range map[string]bool{"and says so": true, "and says nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 3)
			var told endings
			c := connected(t, newClient(t, nodes, onLost(told.tell), timeout(time.Second)))
			l := holdOnAll(t, c, nodes)
			ended := make(chan error, 1)
			began := time.Now()
			if says {
				startScript(t, nodes, 0)
				ended <- nil
			} else {
				go func() { _, err := nodes.Do(0, "DEBUG", "SLEEP", "2"); ended <- err }()
			}
			extendedAgain(t, c, 1)
			eventually(t, func() bool { return time.Since(began) >= realTTL/2 },
				"time stands still")
			if says {
				endScript(t, nodes, 0)
			}
			require.NoError(t, receive(t, ended, "node 0 is busy for ever"))
			extendedAgain(t, c, 2)
			lasting(t, l)
			onEvery(t, nodes, span(0, 3), "k", l.Token())
			require.NoError(t, l.Release(t.Context()))
			caughtUp(t, c, nodes)
			nothingLeft(t, nodes)
			require.Empty(t, told.all())
		})
	}
}

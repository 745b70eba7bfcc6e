package nodes

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: an operator restarts one node after the other, each when every client shows all nodes
// up, and no lease is lost that is extended. The TTLs are long: no extension is due in between.
func TestRolling_NoExtendedLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		v := kit.NewFakeNodes(t, 3)
		v.WithRunIDs()
		v.Latency(5 * time.Millisecond) // so the nodes answer in every order
		var clients []*lockpipe.Client
		var held []*lockpipe.Lease
		for i := range 2 {
			c := v.Client(t, func(cfg *lockpipe.Config) {
				cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = ttl, ttl, 50*time.Millisecond
			})
			clients = append(clients, c)
			for k := range 100 {
				held = append(held, kit.Take(t, c, fmt.Sprint(i, "/", k),
					kit.Auto(ttl, time.Hour)...))
			}
		}
		for range 2 {
			for i := range v.Nodes {
				v.Nodes[i].Restart()
				time.Sleep(10 * time.Millisecond) // the clients notice it
				for !kit.AllUp(clients[0]) || !kit.AllUp(clients[1]) {
					time.Sleep(time.Millisecond)
				}
			}
		}
		time.Sleep(5 * ttl)
		for _, l := range held {
			require.NoError(t, l.Err())
			kit.Release(t, l)
		}
	})
}

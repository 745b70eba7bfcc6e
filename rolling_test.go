package lockpipe_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: an operator restarts one node after the other, each when every client shows all nodes
// up, and no lease is lost that is extended. The TTLs are long: no extension is due in between.
func TestRolling_NoExtendedLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		v := newFakeNodes(t, 3)
		v.withRunIDs()
		v.latency(5 * time.Millisecond) // so the nodes answer in every order
		var clients []*lockpipe.Client
		var held []*lockpipe.Lease
		for i := range 2 {
			c := v.client(t, func(cfg *lockpipe.Config) {
				cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = ttl, ttl, 50*time.Millisecond
			})
			clients = append(clients, c)
			for k := range 100 {
				held = append(held, take(t, c, fmt.Sprint(i, "/", k),
					auto(ttl, time.Hour)...))
			}
		}
		for range 2 {
			for i := range v.nodes {
				v.nodes[i].Restart()
				time.Sleep(10 * time.Millisecond) // the clients notice it
				for !allUp(clients[0]) || !allUp(clients[1]) {
					time.Sleep(time.Millisecond)
				}
			}
		}
		time.Sleep(5 * ttl)
		for _, l := range held {
			require.NoError(t, l.Err())
			release(t, l)
		}
	})
}

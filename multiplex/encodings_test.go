package multiplex

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// The goal: a round is encoded for each set of commands that a connected node has, and for no
// other. A node for whose set there is nothing makes its own commands.
func TestNewerCommands_ARoundIsEncodedForEachSetInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const both = link.MSETEX | link.DELIFEQ
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		var mu sync.Mutex
		var encoded, alone []int // the sets, and the nodes without one
		var conns [3]link.Conn
		connected := [3]bool{true, true, true}
		for i, set := range []link.CommandSet{both, both, link.DELIFEQ} {
			conn := &conns[i]
			conn.Allow(set)
			m.nodes[i].Commands = func() (link.CommandSet, bool) {
				return conn.Commands(), connected[i]
			}
			send := answeredBy(stores[i].flush)
			m.nodes[i].SendFlush = func(f *node.Flush) {
				shared := tripOf(f).Rounds[0].State.commands.Shared
				mu.Lock()
				if shared[conn.Commands()] == nil {
					alone = append(alone, i)
				}
				mu.Unlock()
				for set, e := range shared {
					if i == 0 && e != nil {
						encoded = append(encoded, set)
					}
				}
				send(f)
			}
		}
		check := func(sets, own []int) {
			encoded, alone = nil, nil
			c := claim("k", "t")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, sets, encoded)
			require.ElementsMatch(t, own, alone)
			stores[0].free("k")
			stores[1].free("k")
			stores[2].free("k")
		}
		check([]int{int(link.DELIFEQ), int(both)}, nil)
		connected[2] = false
		check([]int{int(both)}, []int{2})
		conns[0].Forbid(both)
		check([]int{0, int(both)}, []int{2})
		connected = [3]bool{}
		check([]int{0}, []int{1, 2})
	})
}

package multiplex

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: if many callers ask one client for the same keys at once, alone and as sets, each key
// has one holder on each server. The others are refused, and the key that they did not get is
// named. Keys of another type are held. Nothing is left when all have released.
func TestTogether_EachKeyHasOneHolder(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	for i := range nodes.Len() {
		_, err := nodes.Do(i, "LPUSH", "list", "x")
		require.NoError(t, err)
	}
	for round := range 30 {
		if round == 20 { // a server may lose the scripts that nobody has used
			for i := range nodes.Len() {
				_, err := nodes.Do(i, "SCRIPT", "FLUSH")
				require.NoError(t, err)
			}
		}
		var callers sync.WaitGroup
		var mu sync.Mutex
		holders := map[string]int{}
		var held []*Claim
		for i := range 60 {
			keys := []string{fmt.Sprint(round, ":", i/4)}
			switch {
			case i%8 == 0:
				keys = append(keys, fmt.Sprint(round, ":", i/4+1))
			case i == 59:
				keys = []string{"new", "list"}
			}
			callers.Go(func() {
				c := new(Claim)
				c.Init("", keys, fmt.Sprint("token", i), "")
				o := m.Acquire(c, time.Minute, 1).Wait(t.Context())
				mu.Lock()
				defer mu.Unlock()
				switch o.Result {
				case Won:
					held = append(held, c)
					for _, key := range keys {
						holders[key]++
					}
				case Held:
					if len(o.Keys) == 0 || !strings.Contains(strings.Join(keys, " "), o.Keys[0]) {
						t.Errorf("%v are held because of %v", keys, o.Keys)
					}
					if i == 59 && o.Keys[0] != "list" {
						t.Errorf("of the list and a free key, %v is held", o.Keys)
					}
				default:
					t.Errorf("%v: %+v", keys, o)
				}
			})
		}
		callers.Wait()
		for key, count := range holders {
			require.Equal(t, 1, count, key)
		}
		require.NotEmpty(t, holders)
		require.NotContains(t, holders, "list")
		for _, c := range held {
			require.NoError(t, wait(m.Release(c, 1), t.Context()))
		}
	}
	require.Eventually(t, func() bool {
		for i := range nodes.Len() {
			left, err := nodes.Do(i, "KEYS", "*:*")
			if err != nil || len(left.([]any)) > 2 { // of the restart guard
				return false
			}
		}
		return true
	}, patient, often)
}

// The goal: the client finds out which newer commands a server has, and writes nothing for that.
func TestNewerCommands_AreFound(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	want := link.CommandSet(0)
	for set, command := range map[link.CommandSet][]string{
		link.MSETEX: {"MSETEX", "1", "none", "x", "XX", "PX", "1"}, link.DELIFEQ: {
			"DELIFEQ",
			"none", "x",
		},
	} {
		if _, err := nodes.Do(0, command...); err == nil {
			want |= set
		}
	}
	m := start(t, nodes.URLs(), func(c *Config) { c.Guard = guard.Off })
	up(t, m)
	require.Equal(t, want, m.nodes[0].Link.Current().Commands())
	require.Equal(t, []any{ids.LayoutsKey}, ask(t, nodes, 0, "KEYS", "*"))
}

package nodes

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// changes counts what was written to node i since it started.
func changes(t *testing.T, nodes *lockpipetest.Nodes, i int) string {
	t.Helper()
	return info(t, nodes, i)["rdb_changes_since_last_save"]
}

// info has the fields of INFO of node i.
func info(t *testing.T, nodes *lockpipetest.Nodes, i int) map[string]string {
	t.Helper()
	return resp.ParseInfo(kit.Do(t, nodes, i, "INFO").(string))
}

// traces shows what a client leaves on the nodes: the names of all keys, the values of those that
// no client renews, which layouts are in use, and how many connections are notified of changes.
func traces(t *testing.T, nodes *lockpipetest.Nodes) (all []string) {
	t.Helper()
	for i := range nodes.Len() {
		keys, err := nodes.Keys(i, "")
		require.NoError(t, err)
		slices.Sort(keys)
		for _, key := range keys {
			text := ""
			switch key {
			case kit.Prefix + "lockpipe:layouts":
				text = fmt.Sprint(kit.Do(t, nodes, i, "HKEYS", key))
			default:
				text = fmt.Sprint(kit.Do(t, nodes, i, "GET", key))
			}
			all = append(all, fmt.Sprintf("node %d: %s %s", i, key, text))
		}
		all = append(all, fmt.Sprintf("node %d: %v keys, %s notified", i, kit.Do(t, nodes, i, "DBSIZE"),
			info(t, nodes, i)["tracking_clients"]))
	}
	return all
}

// looksWithoutAClient inspects the nodes, once as the clients use them and once with other nodes,
// which a strict client of the nodes would not bear if a client had them.
func looksWithoutAClient(t *testing.T, nodes *lockpipetest.Nodes) {
	t.Helper()
	for _, urls := range [][]string{nodes.URLs(), nodes.URLs()[:1]} {
		cfg := kit.Config(urls, nil)
		cfg.MaxTTL = 0
		all, err := lockpipe.Inspect(t.Context(), cfg)
		require.NoError(t, err)
		finds(t, all, kit.Address(nodes, 0), lockpipe.SeverityInfo, "answers within")
	}
}

// The goal: an inspection without a client writes nothing, neither to new nodes nor to used ones,
// and has no connection notified.
func TestInspect_WithoutAClientLeavesNoTrace(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	unchanged := func() {
		t.Helper()
		before := traces(t, nodes)
		for i := range nodes.Len() {
			before = append(before, changes(t, nodes, i))
		}
		looksWithoutAClient(t, nodes)
		after := traces(t, nodes)
		for i := range nodes.Len() {
			after = append(after, changes(t, nodes, i))
		}
		require.Equal(t, before, after)
	}
	unchanged()
	require.Contains(t, traces(t, nodes)[0], "node 0: 0 keys, 0 notified")
	c := kit.Connected(t, kit.NewClient(t, nodes))
	kit.Take(t, c, "held")
	kit.CaughtUp(t, c, nodes)
	require.NoError(t, c.Close(t.Context()))
	require.Contains(t, traces(t, nodes)[0], "lockpipe:admitted")
	unchanged()
	kit.Do(t, nodes, 1, "SET", kit.Prefix+"lockpipe:admitted", "another server")
	unchanged()
	require.NoError(t, nodes.Flush(2))
	unchanged()
}

// The goal: nor does it disturb a strict fleet that works: the nodes have the same keys of the
// fleet as before, and all of them vote all the time.
func TestInspect_WithoutAClientLeavesAStrictFleetAlone(t *testing.T) {
	kit.SkipIfShort(t, "an inspection beside a fleet that works")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	var log kit.LockedBuffer
	fleet := func(cfg *lockpipe.Config) {
		cfg.RestartGuard, cfg.TTL, cfg.MaxTTL = lockpipe.GuardStrict, 2*time.Second, 2*time.Second
		cfg.NodeTimeout = time.Second
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}
	a, b := kit.NewClient(t, nodes, fleet), kit.NewClient(t, nodes, fleet)
	kit.Connected(t, a)
	kit.Connected(t, b)
	stop, finish := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var failed error // set before working is done
	working.Go(func() {
		for n := 0; stop.Err() == nil && failed == nil; n++ {
			key := fmt.Sprint("sku:", n%10)
			failed = a.Do(t.Context(), key, func(context.Context) error { return nil })
		}
	})
	companions := func() []string {
		return slices.DeleteFunc(traces(t, nodes), func(line string) bool {
			return strings.Contains(line, "sku:") || strings.Contains(line, " keys, ")
		})
	}
	before, began := companions(), log.String()
	looksWithoutAClient(t, nodes)
	require.Equal(t, before, companions())
	for i := range nodes.Len() {
		require.Equal(t, "2", info(t, nodes, i)["tracking_clients"])
	}
	finish()
	working.Wait()
	require.NoError(t, failed)
	for _, c := range []*lockpipe.Client{a, b} {
		require.Zero(t, c.Stats().ForeignLayouts)
		require.True(t, kit.AllUp(c))
	}
	require.Equal(t, began, log.String())
}

// The goal: who only looks with a client writes nothing beyond what the client renews anyway.
func TestInspect_LookingWithAClientLeavesNoTrace(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	kit.Take(t, c, "held")
	kit.CaughtUp(t, c, nodes)
	kit.OnEvery(t, nodes, []int{0, 1, 2}, "barrier:1", "")
	before := traces(t, nodes)
	for name, look := range map[string]func() error{
		"Peek": func() error {
			_, err := c.Peek(t.Context(), []string{"held", "free"})
			return err
		},
		"Ready": func() error { return c.Ready(t.Context()) },
		"Nodes": func() error { c.Nodes(); return nil },
	} {
		kit.Eventually(t, func() bool { // the client renews something every second
			written := func() (all []string) {
				for i := range nodes.Len() {
					all = append(all, changes(t, nodes, i))
				}
				return all
			}
			before := written()
			require.NoError(t, look())
			return slices.Equal(before, written())
		}, "%s writes each time", name)
	}
	_, err := c.Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, traces(t, nodes))
}

// The goal: with groups, and while the fleet moves, all nodes are looked at, in the order of the
// configuration.
func TestInspect_WithoutAClientLooksAtAllGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 6)
		v.WithRunIDs()
		var log bytes.Buffer
		all, err := lockpipe.Inspect(t.Context(), lockpipe.Config{
			Groups: []lockpipe.Group{
				{Name: "a", Nodes: v.URLs[:2]}, {Name: "b", Nodes: v.URLs[2:3]},
			},
			Next: []lockpipe.Group{
				{Name: "a", Nodes: v.URLs[1:3]}, {Name: "c", Nodes: v.URLs[3:]},
			},
			Dial: v.Dial, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		for _, url := range v.URLs {
			finds(t, all, url, lockpipe.SeverityInfo, "answers within")
		}
		finds(t, all, "", lockpipe.SeverityWarning, "one node is all there is")
		finds(t, all, "", lockpipe.SeverityWarning, "two nodes make a quorum only together")
		finds(t, all, v.URLs[5], lockpipe.SeverityInfo, "no key of the restart guard")
		require.Empty(t, log.String())
	})
}

// The goal: with GuardOff nothing is said of the records that clients without the guard ignore.
func TestInspect_WithGuardOffReadsNoRecords(t *testing.T) {
	t.Parallel()
	nodes, err := lockpipetest.StartInProcess(3)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nodes.Close()) })
	kit.Do(t, nodes, 0, "SET", kit.Prefix+"lockpipe:admitted", "another server")
	all, err := lockpipe.Inspect(t.Context(), kit.Config(nodes.URLs(), []func(*lockpipe.Config){
		func(cfg *lockpipe.Config) { cfg.RestartGuard = lockpipe.GuardOff },
	}))
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(all), "restart guard")
}

// The goal: a master by Sentinel is looked at without a client too, at its present address.
func TestInspect_WithoutAClientAsksTheSentinels(t *testing.T) {
	kit.SkipIfShort(t, "an inspection by sentinels")
	t.Parallel()
	r := lockpipetest.StartReplicatedT(t)
	name := r.MasterSet() + "@" + r.Sentinels()[0]
	for range 2 {
		all, err := lockpipe.Inspect(t.Context(), kit.Config([]string{bySentinel(r)}, nil))
		require.NoError(t, err)
		finds(t, all, name, lockpipe.SeverityInfo, "answers within")
		require.NotEqual(t, lockpipe.SeverityError, all.Worst(), "%v", all)
		require.NoError(t, r.Failover())
	}
	keys, err := r.Servers().Keys(0, "")
	require.NoError(t, err)
	require.Empty(t, keys)
}

// The goal: a ctx that is nil or over, and nodes that are not there, are treated as with a client.
func TestInspect_WithoutAClientErrors(t *testing.T) {
	t.Parallel()
	cfg := lockpipe.Config{Nodes: []string{"127.0.0.1:1"}}
	_, err := lockpipe.Inspect(nil, cfg) //nolint:staticcheck // a mistake that users make
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockpipe.Inspect(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	all, err := lockpipe.Inspect(t.Context(), cfg)
	require.NoError(t, err)
	finds(t, all, "127.0.0.1:1", lockpipe.SeverityError, "can't be used and has no vote")
}

package lockpipe_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

const (
	// layoutEnds is after what time an entry ends that nobody renews, and everybody has seen that.
	layoutEnds = time.Minute + 90*time.Second + 31*time.Second
	// layoutSeen is after what time everybody has seen a new entry.
	layoutSeen = 32 * time.Second
)

// onNodes has a client use only some of the nodes.
func onNodes(first, end int) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.Nodes = cfg.Nodes[first:end] }
}

func strictly(cfg *lockpipe.Config) { cfg.RestartGuard = lockpipe.GuardStrict }

// withRunIDs lets each node show a run_id and have its marker, as if it had been admitted before.
func (v *fakeNodes) withRunIDs() {
	for _, n := range v.nodes {
		n.HidesRunID = false
		n.Set(prefix+"lockpipe:admitted", n.RunID())
	}
}

// layoutIDs returns the entries that node i has, without their ends.
func (v *fakeNodes) layoutIDs(i int) (ids []string) {
	text, _ := v.nodes[i].Get(layoutsKey)
	for entry := range strings.FieldsSeq(text) {
		id, _, _ := strings.Cut(entry, "=")
		ids = append(ids, id)
	}
	return ids
}

// The goal: two clients with different nodes notice each other on the nodes that they share, and
// that the other one is gone. Clients with the same nodes notice nothing, in whatever order.
func TestLayouts_OtherNodesAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, 5)
		var logA, logB lockedBuffer
		a := v.client(t, onNodes(0, 3), logTo(&logA))
		same := v.client(t, func(cfg *lockpipe.Config) {
			cfg.Nodes = []string{"redis://" + v.urls[2], v.urls[0], v.urls[1] + "/0"}
		})
		time.Sleep(layoutSeen)
		require.Zero(t, a.Stats().ForeignLayouts+same.Stats().ForeignLayouts)
		require.Len(t, v.layoutIDs(0), 1)
		b := v.client(t, onNodes(2, 5), logTo(&logB))
		require.Equal(t, 1, b.Stats().ForeignLayouts, "it sees the other at its connect")
		time.Sleep(layoutSeen)
		require.Equal(t, 1, a.Stats().ForeignLayouts)
		require.Len(t, v.layoutIDs(0), 1)
		require.Len(t, v.layoutIDs(2), 2)
		time.Sleep(2 * layoutEnds)
		for _, log := range []*lockedBuffer{&logA, &logB} {
			lines := linesWith(log, "shares no quorum")
			require.Len(t, lines, 1, log.String())
			require.Contains(t, lines[0], "level=ERROR")
			require.Contains(t, lines[0], "nodes=[node-2:6379]")
			require.Contains(t, lines[0], "Config.Next")
		}
		try(t, a, "k")
		require.NoError(t, b.Close(t.Context()))
		time.Sleep(layoutEnds)
		require.Zero(t, a.Stats().ForeignLayouts)
		require.Len(t, linesWith(&logA, "not in use any more"), 1)
		require.Len(t, v.layoutIDs(2), 1)
	})
}

// The goal: an entry lasts until the last lease of a client that stopped has run out.
func TestLayouts_AnEntryOutlastsTheLeases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		time.Sleep(5 * time.Minute)
		l, err := c.TryAcquire(t.Context(), "k", lockpipe.WithTTL(time.Minute))
		require.NoError(t, err)
		require.NoError(t, l.Err())
		require.Greater(t, v.nodes[0].TTL(layoutsKey), v.ttl(0, "k"))
	})
}

func TestLayouts_GuardOffLeavesAndReadsNone(t *testing.T) {
	off := func(cfg *lockpipe.Config) { cfg.RestartGuard = lockpipe.GuardOff }
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		v.nodes[0].Set(layoutsKey, "ff=99999999999999")
		time.Sleep(layoutSeen)
		require.Zero(t, c.Stats().ForeignLayouts)
		require.Empty(t, v.layoutIDs(1))
	}, off)
}

// The goal: a strict client locks nothing while a foreign layout is in use, whichever node shows
// it, and recovers when it has ended.
func TestLayouts_AStrictClientStaysOutAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, 5)
		v.withRunIDs()
		var log lockedBuffer
		a := v.client(t, onNodes(0, 3), strictly, logTo(&log))
		held := take(t, a, "held")
		b := v.client(t, onNodes(2, 5))
		time.Sleep(layoutSeen)
		for _, n := range a.Nodes() {
			require.Equal(t, lockpipe.NodeQuarantined, n.State)
			require.ErrorContains(t, n.Err, "shares no quorum")
			require.ErrorContains(t, n.Err, "on node-2:6379")
			require.True(t, n.Until.After(time.Now()))
		}
		_, err := a.TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorContains(t, err, "give both the same nodes")
		try(t, b, "k")
		time.Sleep(2 * time.Minute)
		require.Error(t, held.Err(), "it has run out")
		require.False(t, allUp(a), "the other client renews its entry")
		require.Empty(t, linesWith(&log, "not in use any more"))
		require.Len(t, linesWith(&log, "node is quarantined"), 3, "once for each node")
		require.NoError(t, b.Close(t.Context()))
		time.Sleep(layoutEnds)
		require.True(t, allUp(a), "%+v", a.Nodes())
		try(t, a, "k2")
		require.Len(t, v.layoutIDs(0), 1)
	})
}

// The goal: a strict client with the wrong nodes stops itself, and not those with the right ones.
// It comes in by itself when they are gone, or when somebody deletes their entries.
func TestLayouts_AStrictNewcomerDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, 5)
		v.withRunIDs()
		a := v.client(t, onNodes(0, 3), strictly)
		wrong, err := lockpipe.New(config(v.urls[1:5], []func(*lockpipe.Config){
			strictly, func(cfg *lockpipe.Config) { cfg.Dial = v.dial },
		}))
		require.NoError(t, err)
		defer closeSoon(wrong)
		time.Sleep(layoutSeen)
		require.True(t, allUp(a))
		require.Equal(t, v.layoutIDs(0), v.layoutIDs(1))
		for _, n := range wrong.Nodes() {
			require.Equal(t, lockpipe.NodeQuarantined, n.State)
		}
		require.NoError(t, a.Close(t.Context()))
		for i := range v.nodes {
			v.nodes[i].Delete(layoutsKey)
		}
		time.Sleep(5 * time.Second)
		require.True(t, allUp(wrong), "%+v", wrong.Nodes())
		require.Len(t, v.layoutIDs(4), 1)
		require.Equal(t, v.layoutIDs(4), v.layoutIDs(1), "it leaves its own now")
	})
}

// The goal: no error of a server about the layouts keeps a node from voting, nor an answer that
// does not come. The log has each once.
func TestLayouts_AnErrorKeepsNoNodeFromVoting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, 3)
		v.withRunIDs()
		var log lockedBuffer
		for i := range v.nodes {
			v.intercept(i, func(_ string, args []string) string {
				if !slices.Contains(args, layoutsKey) {
					return ""
				}
				return failed("WRONGTYPE Operation against a key holding the wrong kind of value")
			})
		}
		c := v.client(t, strictly, logTo(&log))
		time.Sleep(3 * layoutSeen)
		require.True(t, allUp(c))
		try(t, c, "k")
		require.Len(t, linesWith(&log, "layouts in use can't be kept"), 3, log.String())
	})
}

// The goal: a user who may not use the key, or TIME, has all of its votes.
func TestLayouts_AUserWithoutThePermissionVotes(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	for name, rules := range map[string]string{
		"key": "~app:k* ~app:lockpipe:admitted ~app:lockpipe:generations ~app:lockpipe:none:* +@all",
		"all": "~app:* +@all", "time": "~app:* +@all -time",
	} {
		do(t, nodes, 0, append([]string{"ACL", "SETUSER", name, "on", ">p"},
			strings.Fields(rules)...)...)
		var log lockedBuffer
		c := connected(t, newClient(t, nodes, logTo(&log), func(cfg *lockpipe.Config) {
			cfg.Nodes = []string{strings.Replace(cfg.Nodes[0], "://", "://"+name+":p@", 1)}
		}))
		require.NoError(t, try(t, c, "k").Release(t.Context()))
		lines := linesWith(&log, "layouts in use can't be kept")
		require.Equal(t, name != "all", len(lines) == 1, "%s: %v", name, lines)
	}
}

// The goal: a person sees which layouts are in use, and which one is wrong.
func TestLayouts_AreInspected(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	short := func(cfg *lockpipe.Config) { // for which the node without a marker has no vote
		cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = time.Second, time.Second, time.Second
	}
	connected(t, newClient(t, nodes, onNodes(0, 2), short))
	c := connected(t, newClient(t, nodes, onNodes(1, 3), short))
	all := inspected(t, c)
	finds(t, all, "", lockpipe.SeverityInfo, "layouts in use: ")
	finds(t, all, "", lockpipe.SeverityInfo, "(this client's) until at most 1m")
	finds(t, all, "", lockpipe.SeverityError, "(seen on "+address(nodes, 1)+
		"), which shares no quorum")
}

package multiplex

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: what a node has is read as the script writes it, and nothing else of it counts.
func TestGenerations_AreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]struct {
		own    generation
		others map[string]int64
	}{
		"":                       {others: map[string]int64{}},
		"-=0 a=3":                {others: map[string]int64{"a": 3}},
		"x=7":                    {generation{"x", 7}, map[string]int64{}},
		"x=7 a=3 b=0":            {generation{"x", 7}, map[string]int64{"a": 3, "b": 0}},
		"x=7 a=-3 b=z c 1=":      {generation{"x", 7}, map[string]int64{}},
		"x=12345678901234 a=1":   {others: map[string]int64{"a": 1}},
		"lost:by a careless man": {others: map[string]int64{}},
	} {
		own, others := readGenerations(text)
		require.Equal(t, want.own, own, text)
		require.Equal(t, want.others, others, text)
	}
	_, others := readGenerations("x=1" + strings.Repeat(" y=1", 5) + func() (many string) {
		for i := range 1000 {
			many += fmt.Sprint(" a", i, "=1")
		}
		return many
	}())
	require.Less(t, len(others), maxGenerations)
}

// The goal: a node has forgotten something if a higher number of its id is known: from itself, or from any other node.
// An id that another one took the place of has ended.
func TestGenerations_FallWhenANodeForgets(t *testing.T) {
	g := newGenerations(3)
	require.False(t, g.forgot(generation{}), "no id")
	require.False(t, g.forgot(generation{"a", 1}), "nothing is known")
	g.confirmed(0, "r1", generation{"a", 5})
	require.True(t, g.forgot(generation{"a", 4}))
	require.False(t, g.forgot(generation{"a", 5}))
	g.heard(1, map[string]int64{"a": 7}, time.Now())
	require.True(t, g.forgot(generation{"a", 6}))
	require.False(t, g.forgot(generation{"b", 1}))
	g.confirmed(0, "r1", generation{"b", 1})
	require.True(t, g.forgot(generation{"a", 100}))
	require.Equal(t, []generation{{"b", 1}, {"a", endedGeneration}}, g.except(1))
	require.Empty(t, g.except(0))

	g.confirmed(0, "r2", generation{"c", 1})
	require.False(t, g.forgot(generation{"b", 1}), "the other server may still be there, under another name")
	g.ended(0, "b")
	require.True(t, g.forgot(generation{"b", 1}), "unless this one had it")
}

// The goal: a node that restarted is vouched for by as many others as leave no quorum without one of them, which were
// asked since, and one of which keeps its generation.
func TestGenerations_AreVouchedForByEnoughOthers(t *testing.T) {
	now := time.Now()
	has, lacks := map[string]int64{"a": 3}, map[string]int64{}
	for _, test := range []struct {
		nodes  int
		others []map[string]int64 // of nodes 1, 2 ...; nil was not asked since
		mode   GuardMode
		want   bool
	}{
		{nodes: 1, want: true},
		{nodes: 1, mode: GuardStrict},
		{2, []map[string]int64{has}, GuardAuto, true},
		{2, []map[string]int64{lacks}, GuardAuto, false},
		{3, []map[string]int64{has, lacks}, GuardStrict, true},
		{3, []map[string]int64{has, nil}, GuardAuto, false},
		{3, []map[string]int64{lacks, lacks}, GuardAuto, false},
		{5, []map[string]int64{has, lacks, lacks, nil}, GuardAuto, true},
		{5, []map[string]int64{has, has, nil, nil}, GuardAuto, false},
	} {
		g := newGenerations(test.nodes)
		for i, others := range test.others {
			g.heard(i+1, has, now)
			if others != nil {
				g.heard(i+1, others, now.Add(1))
			}
		}
		require.Equal(t, test.want, g.vouch(0, generation{"a", 3}, now, test.mode), "%+v", test)
	}
	g := newGenerations(1)
	g.confirmed(0, "r1", generation{"a", 3})
	require.True(t, g.vouch(0, generation{"a", 3}, now, GuardStrict), "this client knows it")
	require.False(t, g.vouch(0, generation{"b", 3}, now, GuardStrict))
}

// threeLasting are three durable servers, with a client of which they are in use.
func threeLasting(t *testing.T) (servers []*lasting, urls []string, m *Mux) {
	t.Helper()
	for range 3 {
		s := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
		servers, urls = append(servers, s), append(urls, s.url()...)
	}
	m = start(t, urls, nil)
	up(t, m)
	return servers, urls, m
}

// kept is what a server keeps.
func (s *lasting) kept(t *testing.T) (own generation, others map[string]int64) {
	t.Helper()
	r, err := s.do("GET", generationsKey)
	require.NoError(t, err)
	return readGenerations(r.text)
}

// spread waits until the generation of each server has risen, and the others keep that.
func spread(t *testing.T, m *Mux, servers []*lasting) {
	t.Helper()
	for _, s := range servers {
		before, _ := s.kept(t)
		require.Eventually(t, func() bool {
			m.generations.renewOthers(-1)
			kept := 0
			for _, other := range servers {
				if _, others := other.kept(t); others[before.id] > before.number {
					kept++
				}
			}
			return kept == len(servers)-1
		}, patient, 10*time.Millisecond)
	}
}

// copyDisk copies what the server has on its disk. It returns what puts that back.
func (s *lasting) copyDisk(t *testing.T) (putBack func()) {
	t.Helper()
	saved := filepath.Join(t.TempDir(), "copy")
	disk := filepath.Join(s.dir, "appendonlydir")
	require.NoError(t, os.CopyFS(saved, os.DirFS(disk)))
	return func() {
		s.kill()
		require.NoError(t, os.RemoveAll(disk))
		require.NoError(t, os.CopyFS(disk, os.DirFS(saved)))
		s.start()
	}
}

// The goal: durable masters whose disks were put back from a copy have forgotten a lock that is held, and do not grant it
// again: neither to a client that knew them, nor to a new one, whoever else is there.
func TestGenerations_ShowThatDisksWerePutBack(t *testing.T) {
	for name, mode := range map[string]GuardMode{"auto": GuardAuto, "strict": GuardStrict} {
		for name, stays := range map[string]bool{name + ", the holder stays": true, name + ", the holder is gone": false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				servers, urls, m := threeLasting(t)
				putBack := []func(){servers[0].copyDisk(t), servers[1].copyDisk(t)}
				spread(t, m, servers)
				require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
				if !stays {
					require.NoError(t, m.Close(t.Context()))
				}
				for _, f := range putBack {
					f()
				}
				other := start(t, urls, func(c *Config) { c.Guard = mode })
				becomes(t, other, 0, NodeQuarantined, whyRestored)
				becomes(t, other, 1, NodeQuarantined, whyRestored)
				becomes(t, other, 2, NodeUp, "")
				require.Zero(t, other.Nodes()[0].Stats.Connects+other.Nodes()[1].Stats.Connects, "they never voted")
				require.ErrorIs(t, wait(other.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()), ErrNoQuorum)
				for _, s := range servers[:2] {
					r, err := s.do("GET", markerKey)
					require.NoError(t, err)
					require.Contains(t, r.text, lostPrefix, "nobody else takes it for complete")
				}
				if stays {
					becomes(t, m, 0, NodeQuarantined, "")
					becomes(t, m, 1, NodeQuarantined, "")
				}
			})
		}
	}
}

// The goal: durable masters that lost nothing are admitted long before the longest TTL has passed, by a client that knew
// them and by a new one; also where all restarted together.
func TestGenerations_VouchForNodesThatRestart(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	before, _ := servers[0].kept(t)
	servers[0].kill()
	servers[0].start()
	becomes(t, m, 0, NodeUp, "")
	require.NoError(t, m.Close(t.Context()))
	for _, s := range servers {
		s.kill()
	}
	for _, s := range servers {
		s.start()
	}
	late := start(t, urls, nil)
	up(t, late)
	after, _ := servers[0].kept(t)
	require.Equal(t, before.id, after.id, "its generation goes on")
	require.GreaterOrEqual(t, after.number, before.number)
}

// The goal: a new client waits with a durable master that restarted while another one is missing, which may know better;
// and not for longer than that is missing.
func TestGenerations_WaitForTheOneThatMayKnowBetter(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	require.NoError(t, m.Close(t.Context()))
	servers[0].kill()
	servers[0].start()
	servers[2].kill()
	late := start(t, urls, nil)
	becomes(t, late, 0, NodeQuarantined, whyUnvouched)
	becomes(t, late, 1, NodeUp, "")
	servers[2].start()
	up(t, late)
}

// The goal: a client that is connected to a master notices that another client knows of a loss there, or that its
// generation fell, and does not count its votes any more.
func TestGenerations_EndAConnectionWhenTheNodeForgot(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string][]string{
		"marked":     {"SET", markerKey, lostPrefix + "x"},
		"deleted":    {"DEL", markerKey},
		"fallen":     nil,
		"unscripted": {"SCRIPT", "FLUSH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, _, m := threeLasting(t)
			spread(t, m, servers)
			if forget == nil {
				own, _ := servers[0].kept(t)
				forget = []string{"SET", generationsKey, own.id + "=1"}
			}
			_, err := servers[0].do(forget...)
			require.NoError(t, err)
			if name == "unscripted" { // it goes on
				spread(t, m, servers)
				return
			}
			becomes(t, m, 0, NodeQuarantined, "")
			require.Less(t, m.Nodes()[1].Stats.Disconnects, uint64(1))
		})
	}
}

// The goal: masters that are not durable have no generation, and keep those of others.
func TestGenerations_AreOfDurableNodes(t *testing.T) {
	t.Parallel()
	volatile := startLasting(t)
	durable := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
	m := start(t, append(volatile.url(), durable.url()...), nil)
	up(t, m)
	require.Eventually(t, func() bool {
		m.generations.renewOthers(-1)
		own, _ := durable.kept(t)
		none, others := volatile.kept(t)
		return none.id == "" && own.id != "" && others[own.id] > 1
	}, patient, 10*time.Millisecond)
}

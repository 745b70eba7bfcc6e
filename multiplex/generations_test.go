package multiplex

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/reserved"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

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

// leading is a DialFunc by which name i leads to the socket of server to[i]. cut ends its
// connections.
type leading struct {
	names   []string
	sockets []string
	to      []atomic.Int32
	mu      sync.Mutex
	conns   []net.Conn
}

func (d *leading) dial(ctx context.Context, _, name string) (net.Conn, error) {
	for i, n := range d.names {
		if strings.HasSuffix(n, name) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", d.sockets[d.to[i].Load()])
			if err == nil {
				d.mu.Lock()
				d.conns = append(d.conns, conn)
				d.mu.Unlock()
			}
			return conn, err
		}
	}
	panic(name)
}

func (d *leading) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}

func newLeading(servers []*lasting, names []string) *leading {
	d := &leading{names: names, to: make([]atomic.Int32, len(names))}
	for _, s := range servers {
		d.sockets = append(d.sockets, s.socket())
	}
	for i := range names {
		d.to[i].Store(int32(i))
	}
	return d
}

// generation is the generation of a node.
type generation struct {
	id     string
	number int64
}

// kept returns what a server keeps: its own generation, and the numbers of others.
func (s *lasting) kept(t *testing.T) (own generation, others map[string]int64) {
	t.Helper()
	r, err := s.do("GET", reserved.Generations)
	require.NoError(t, err)
	others = map[string]int64{}
	for i, entry := range strings.Fields(r.Text) {
		id, digits, _ := strings.Cut(entry, "=")
		number, err := strconv.ParseInt(digits, 10, 64)
		require.NoError(t, err)
		switch {
		case i > 0:
			others[id] = number
		case id != "-":
			own = generation{id, number}
		}
	}
	return own, others
}

// renewSoon lets the client renew all generations.
func renewSoon(m *Mux) {
	for _, n := range m.nodes {
		n.Link.RenewSoon()
	}
}

// spread waits until the generation of each server has risen, and the others keep that.
func spread(t *testing.T, m *Mux, servers []*lasting) {
	t.Helper()
	for _, s := range servers {
		var before generation
		require.Eventually(t, func() bool {
			before, _ = s.kept(t)
			return before.id != ""
		}, patient, 10*time.Millisecond)
		require.Eventually(t, func() bool {
			renewSoon(m)
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

// The goal: durable masters whose disks were put back from a copy have forgotten a lock that is
// held, and do not grant it again: neither to a client that knew them, nor to a new one, whoever
// else is there.
func TestGenerations_ShowThatDisksWerePutBack(t *testing.T) {
	for name, mode := range map[string]GuardMode{"auto": GuardAuto, "strict": GuardStrict} {
		for name, stays := range map[string]bool{name + ", the holder stays": true, name +
			", the holder is gone": false} {
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
				why := whyRestored
				if stays {
					why = "" // the holder may have marked it first
				}
				becomes(t, other, 0, NodeQuarantined, why)
				becomes(t, other, 1, NodeQuarantined, why)
				becomes(t, other, 2, NodeUp, "")
				require.Zero(t, other.Nodes()[0].Stats.Connects+other.Nodes()[1].Stats.Connects,
					"they never voted")
				require.ErrorIs(t, wait(other.Acquire(claim("k", "t2"), time.Minute, 1),
					t.Context()), ErrNoQuorum)
				for _, s := range servers[:2] {
					r, err := s.do("GET", reserved.Marker)
					require.NoError(t, err)
					require.Contains(t, r.Text, "lost:", "nobody else takes it for complete")
				}
				if stays {
					becomes(t, m, 0, NodeQuarantined, "")
					becomes(t, m, 1, NodeQuarantined, "")
				}
			})
		}
	}
}

// The goal: durable masters that lost nothing are admitted long before the longest TTL has passed,
// by a client that knew them and by a new one; also where all restarted together.
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

// The goal: a new client waits with a durable master that restarted while another one is out of
// reach, which may know better; and not for longer.
func TestGenerations_WaitForTheOneThatMayKnowBetter(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	require.NoError(t, m.Close(t.Context()))
	servers[0].kill()
	servers[0].start()
	var reachable atomic.Bool
	late := start(t, urls, outOfReach(func(name string) bool {
		return strings.HasSuffix(urls[2], name) && !reachable.Load()
	}))
	becomes(t, late, 0, NodeQuarantined, whyUnvouched)
	becomes(t, late, 1, NodeUp, "")
	reachable.Store(true)
	up(t, late)
}

// The goal: clients that come seldom do not take from a durable master what shows that it lost
// nothing.
func TestGenerations_VouchForANodeThatWasMarkedLongAgo(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	require.NoError(t, m.Close(t.Context()))
	servers[0].kill()
	servers[0].start()
	brief := start(t, urls, outOfReach(func(name string) bool {
		return strings.HasSuffix(urls[2], name)
	}))
	becomes(t, brief, 0, NodeQuarantined, whyUnvouched)
	require.NoError(t, brief.Close(t.Context()))
	r, err := servers[0].do("PTTL", reserved.Marker)
	require.NoError(t, err)
	left, err := strconv.ParseInt(r.Text, 10, 64)
	require.NoError(t, err)
	// An hour passes.
	_, err = servers[0].do("PEXPIRE", reserved.Marker, fmt.Sprint(left-time.Hour.Milliseconds()))
	require.NoError(t, err)
	up(t, start(t, urls, nil))
}

// The goal: a durable master that restarted draws another master_replid when its first replica
// comes. It lost nothing by that, so others still vouch for it.
func TestGenerations_VouchForANodeWhoseReplicaComes(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	require.NoError(t, m.Close(t.Context()))
	servers[0].kill()
	servers[0].start()
	var reachable atomic.Bool
	late := start(t, urls, outOfReach(func(name string) bool {
		return strings.HasSuffix(urls[2], name) && !reachable.Load()
	}))
	before := becomes(t, late, 0, NodeQuarantined, whyUnvouched)
	replica, err := net.Dial("unix", servers[0].socket())
	require.NoError(t, err)
	defer func() { _ = replica.Close() }()
	_, err = replica.Write([]byte("PSYNC ? -1\r\n"))
	require.NoError(t, err)
	noticed := func() bool { return late.Nodes()[0].Until.After(before.Until) }
	require.Eventually(t, noticed, patient, often, "the wait begins again")
	reachable.Store(true)
	up(t, late)
}

// The goal: a loss that one client knows of is known to all, also if the copy of the disk has a
// mark that names the run before.
func TestGenerations_ShowThatADiskWithAMarkWasPutBack(t *testing.T) {
	notShort(t, "a copy of a disk with a loss record")
	t.Parallel()
	s := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
	m := start(t, s.url(), nil)
	up(t, m)
	spread(t, m, []*lasting{s})
	info, err := s.do("INFO", "server")
	require.NoError(t, err)
	run := resp.ParseInfo(info.Text)["run_id"]
	require.NoError(t, m.Close(t.Context()))
	_, err = s.do("SET", reserved.Marker, "lost:3600000:r.h:x:"+strings.Repeat("f", 40))
	require.NoError(t, err)
	putBack := s.copyDisk(t)
	_, err = s.do("SET", reserved.Marker, run)
	require.NoError(t, err)

	m = start(t, s.url(), nil)
	up(t, m)
	before, _ := s.kept(t)
	require.Eventually(t, func() bool {
		own, _ := s.kept(t)
		return own.number > before.number+2 // so the client knows a number above that of the copy
	}, patient, 10*time.Millisecond)
	putBack()
	becomes(t, m, 0, NodeQuarantined, "")
	other := start(t, s.url(), nil)
	becomes(t, other, 0, NodeQuarantined, "")
	require.Zero(t, other.Nodes()[0].Stats.Connects, "it never voted")
}

// The goal: a client that is connected to a master notices that another client knows of a loss
// there, or that its generation fell, and does not count its votes any more.
func TestGenerations_EndAConnectionWhenTheNodeForgot(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string][]string{
		"marked":     {"SET", reserved.Marker, "lost:x"},
		"deleted":    {"DEL", reserved.Marker},
		"fallen":     nil,
		"unscripted": {"SCRIPT", "FLUSH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, _, m := threeLasting(t)
			spread(t, m, servers)
			if forget == nil {
				own, _ := servers[0].kept(t)
				forget = []string{"SET", reserved.Generations, own.id + "=1"}
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
		renewSoon(m)
		own, _ := durable.kept(t)
		none, others := volatile.kept(t)
		return none.id == "" && own.id != "" && others[own.id] > 1
	}, patient, 10*time.Millisecond)
}

// The goal: servers whose names change places have forgotten nothing, and vote again at once for
// all clients.
func TestGenerations_DoNotEndWhenNamesChangePlaces(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	names := newLeading(servers, urls)
	moved := start(t, urls, func(c *Config) { c.Dial = names.dial })
	up(t, moved)
	names.to[0].Store(1)
	names.to[1].Store(0)
	names.cut()
	for i := range servers {
		require.Eventually(t, func() bool { return moved.Nodes()[i].Stats.Connects > 1 }, patient,
			often)
	}
	spread(t, moved, servers)
	spread(t, m, servers)
	for i, s := range servers {
		r, err := s.do("GET", reserved.Marker)
		require.NoError(t, err)
		require.NotContains(t, r.Text, "lost:", "a server that has forgotten nothing was marked")
		require.Zero(t, m.Nodes()[i].Stats.Disconnects)
	}
}

// The goal: a client whose one name leads to one or another of several healthy masters takes none
// of them from others.
func TestGenerations_OneWrongNameTakesNoMasterFromOthers(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	names := newLeading(servers, urls[:1])
	wrong := start(t, urls[:1], func(c *Config) { c.Dial = names.dial })
	up(t, wrong)
	for _, to := range []int32{1, 0, 2, 1} {
		before := wrong.Nodes()[0].Stats.Connects
		names.to[0].Store(to)
		names.cut()
		require.Eventually(t, func() bool { return wrong.Nodes()[0].Stats.Connects > before },
			patient, often)
		spread(t, m, servers)
	}
	for _, n := range m.Nodes() {
		require.Equal(t, NodeUp, n.State)
		require.Zero(t, n.Stats.Disconnects)
	}
}

// The goal: a client that finds the server admitted by another one at the same moment takes that
// one's generation for the node's, and not its own, which nobody keeps.
func TestGenerations_OfTwoThatAdmitAtTheSameMoment(t *testing.T) {
	notShort(t, "two clients that admit a node at once")
	t.Parallel()
	s := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
	other := startLasting(t)
	urls := append(s.url(), other.url()...)
	first := start(t, urls, nil)
	up(t, first)
	before, _ := s.kept(t)
	require.NoError(t, first.Close(t.Context()))
	_, err := s.do("SET", reserved.Marker, "lost:1")
	require.NoError(t, err)
	info, err := s.do("INFO", "server")
	require.NoError(t, err)
	runID := resp.ParseInfo(info.Text)["run_id"]
	var once sync.Once
	m := start(t, urls, func(c *Config) {
		waits(2 * time.Second)(c)
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &spy{Conn: conn, wrote: func(p []byte) {
				if settles(p) && bytes.Contains(p, []byte(runID)) {
					once.Do(func() { // as another client's write_marker.lua does
						_, _ = s.do("SET", reserved.Marker, runID)
						_, _ = s.do("SET", reserved.Generations, "theirs=1")
					})
				}
			}}, err
		}
	})
	up(t, m)
	var kept map[string]int64
	require.Eventually(t, func() bool {
		renewSoon(m)
		_, kept = other.kept(t)
		return kept["theirs"] > 0
	}, patient, 10*time.Millisecond)
	delete(kept, before.id)
	require.Len(t, kept, 1, "it never took its own for the node's")
}

// The goal: two of five disks that were put back from a copy do not vouch for each other, while the
// third master of the holder's quorum is down and the other two were out of the holder's reach.
func TestGenerations_NodesThatRecoverAreNoWitnesses(t *testing.T) {
	notShort(t, "old disks under two of five nodes")
	t.Parallel()
	var servers []*lasting
	var urls []string
	for range 5 {
		s := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
		servers, urls = append(servers, s), append(urls, s.url()...)
	}
	m := start(t, urls, nil)
	up(t, m)
	spread(t, m, servers)
	require.NoError(t, m.Close(t.Context()))

	var cut atomic.Bool
	holder := start(t, urls, outOfReach(func(name string) bool {
		return cut.Load() || strings.HasSuffix(urls[3], name) || strings.HasSuffix(urls[4], name)
	}))
	for i := range 3 {
		becomes(t, holder, i, NodeUp, "")
	}
	spread(t, holder, servers[:3])
	putBack := []func(){servers[0].copyDisk(t), servers[1].copyDisk(t)}
	spread(t, holder, servers[:3])
	lease := holder.Acquire(claim("k", "t"), time.Minute, 1)
	require.NoError(t, wait(lease, t.Context()))
	cut.Store(true)
	servers[2].kill()
	for _, f := range putBack {
		f()
	}
	other := start(t, urls, nil)
	becomes(t, other, 3, NodeUp, "")
	becomes(t, other, 4, NodeUp, "")
	for i := range 2 {
		// A copy of a file that grows may be torn, which is another reason.
		becomes(t, other, i, NodeQuarantined, "")
		require.Zero(t, other.Nodes()[i].Stats.Connects)
	}
	require.ErrorIs(t, wait(other.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()),
		ErrNoQuorum)
}

// The goal: two of three disks that were put back do not vouch for each other where the third
// master was out of the holder's reach.
func TestGenerations_AQuorumThatWasPutBackDoesNotVouchForItself(t *testing.T) {
	t.Parallel()
	servers, urls, m := threeLasting(t)
	spread(t, m, servers)
	require.NoError(t, m.Close(t.Context()))
	var cut atomic.Bool
	holder := start(t, urls, outOfReach(func(name string) bool {
		return cut.Load() || strings.HasSuffix(urls[2], name)
	}))
	becomes(t, holder, 0, NodeUp, "")
	becomes(t, holder, 1, NodeUp, "")
	spread(t, holder, servers[:2])
	putBack := []func(){servers[0].copyDisk(t), servers[1].copyDisk(t)}
	spread(t, holder, servers[:2])
	require.NoError(t, wait(holder.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
	cut.Store(true)
	for _, f := range putBack {
		f()
	}
	other := start(t, urls, nil)
	becomes(t, other, 2, NodeUp, "")
	for i := range 2 {
		// A copy of a file that grows may be torn, which is another reason.
		becomes(t, other, i, NodeQuarantined, "")
		require.Zero(t, other.Nodes()[i].Stats.Connects)
	}
	require.ErrorIs(t, wait(other.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()),
		ErrNoQuorum)
}

// The goal: what a node keeps of another never falls, however many others come: a lower number
// would let an older copy pass.
func TestGenerations_KeptNumbersDoNotFall(t *testing.T) {
	t.Parallel()
	s := startLasting(t)
	m := start(t, s.url(), nil)
	up(t, m)
	info, err := s.do("INFO", "server")
	require.NoError(t, err)
	runID := resp.ParseInfo(info.Text)["run_id"]
	renew := func(others ...string) {
		args := []string{
			"EVAL", script.Renew.Source, "2", reserved.Marker, reserved.Generations, runID,
			"", "0", "", "lost:x", "1000",
		}
		_, err := s.do(append(args, others...)...)
		require.NoError(t, err)
	}
	renew("live", "500")
	for i := range 70 {
		// Clients that each lost a race to admit some node, or nodes that were admitted anew.
		renew("live", "500", "ended"+string(rune('A'+i/26))+string(rune('a'+i%26)), "9999999999999")
		if _, others := s.kept(t); others["live"] == 0 {
			break // dropped, as the oldest
		}
	}
	renew("live", "400") // a client that has not reached that node for a while
	_, others := s.kept(t)
	require.GreaterOrEqual(t, others["live"], int64(500))
}

// The goal: a node whose generation fell loses its votes also when the server refuses writes.
func TestGenerations_FallAlsoWhenMemoryIsFull(t *testing.T) {
	notShort(t, "generations of a node without memory")
	t.Parallel()
	servers, _, m := threeLasting(t)
	spread(t, m, servers)
	own, _ := servers[0].kept(t)
	_, err := servers[0].do("SET", reserved.Generations, own.id+"=1")
	require.NoError(t, err)
	_, err = servers[0].do("CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return m.Nodes()[0].State != NodeUp }, patient,
		10*time.Millisecond)
}

// The goal: a loss is marked once. When a client of an earlier version, which begins no generation,
// has admitted the server after the longest TTL, the others admit it too.
func TestGenerations_ALossIsMarkedOnce(t *testing.T) {
	notShort(t, "an older client that admits a node after a loss")
	t.Parallel()
	servers, _, m := threeLasting(t)
	spread(t, m, servers)
	own, _ := servers[0].kept(t)
	info, err := servers[0].do("INFO", "server")
	require.NoError(t, err)
	_, err = servers[0].do("SET", reserved.Generations, own.id+"=1")
	require.NoError(t, err)
	becomes(t, m, 0, NodeQuarantined, "")
	// As the earlier version does.
	_, err = servers[0].do("SET", reserved.Marker, resp.ParseInfo(info.Text)["run_id"])
	require.NoError(t, err)
	becomes(t, m, 0, NodeUp, "")
	spread(t, m, servers)
	require.Equal(t, uint64(1), m.Nodes()[0].Stats.Disconnects)
}

// The goal: a client that may not use the key of the generations is not up, as docs/operations.md
// says: it would never notice that another one has marked a loss.
func TestGenerations_WithoutPermissionTheNodeIsDown(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	up(t, start(t, nodes.URLs(), nil))
	ask(t, nodes, 0, "ACL", "SETUSER", "u", "on", ">p", "+@all", "~k*", "~"+reserved.Marker,
		"~"+reserved.Probe+
			"*")
	m := start(t, []string{strings.Replace(nodes.URLs()[0], "redis://", "redis://u:p@", 1)}, nil)
	becomes(t, m, 0, NodeDown, "can't be read: NOPERM")
}

// The goal: a connection that lasts shorter than the time between two renewals does not keep the
// generation from rising.
func TestGenerations_RiseOverShortConnections(t *testing.T) {
	notShort(t, "generations over short connections")
	t.Parallel()
	s := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
	m := start(t, s.url(), nil)
	up(t, m)
	before, _ := s.kept(t)
	require.Eventually(t, func() bool {
		connects := m.Nodes()[0].Stats.Connects
		_ = m.nodes[0].Link.Current().Close()
		require.Eventually(t, func() bool { return m.Nodes()[0].Stats.Connects > connects },
			patient, often)
		own, _ := s.kept(t)
		return own.number > before.number+1
	}, patient, 10*time.Millisecond)
}

package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// clusterSlots are those of three nodes.
var clusterSlots = [...]int{2730, 8192, 13653}

// clusterClient returns a client of a cluster, with short leases. reaches says which servers it can
// reach; nil: all.
func clusterClient(t *testing.T, c *lockpipetest.Cluster, reaches func(server int) bool,
) *lockpipe.Client {
	t.Helper()
	cfg := kit.Config([]string{c.URL()}, []func(*lockpipe.Config){kit.Timeout(time.Second)})
	cfg.TTL, cfg.MaxTTL = time.Second, time.Second
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &halfNet{conn, slices.Index(c.Servers().URLs(), "redis://"+addr), reaches}, err
	}
	client, err := lockpipe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { kit.CloseSoon(client) })
	return client
}

// halfNet is a connection that is lost when its server is out of reach.
type halfNet struct {
	net.Conn
	server  int
	reaches func(server int) bool
}

func (n *halfNet) Read(b []byte) (int, error)  { return n.check(n.Conn.Read(b)) }
func (n *halfNet) Write(b []byte) (int, error) { return n.check(n.Conn.Write(b)) }

func (n *halfNet) check(count int, err error) (int, error) {
	if n.reaches != nil && !n.reaches(n.server) {
		return 0, errors.New("out of reach")
	}
	return count, err
}

// rivals want the same keys. Each key has a cell, which says who has it.
type rivals struct {
	cells   [4]atomic.Int64
	holders sync.WaitGroup
	ended   atomic.Bool
	granted atomic.Int64
	twice   atomic.Int64
}

// run lets callers of these clients take turns until stop.
func (r *rivals) run(clients ...*lockpipe.Client) (stop func()) {
	for i := range 4 * len(clients) {
		r.holders.Go(func() {
			for n := i; !r.ended.Load(); n++ {
				r.turn(clients[i%len(clients)], int64(i)+1, n%len(r.cells))
			}
		})
	}
	return func() {
		r.ended.Store(true)
		r.holders.Wait()
	}
}

// turn tries to take one key, holds it for a while, and gives it back or lets it run out.
func (r *rivals) turn(c *lockpipe.Client, who int64, key int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l, err := c.Acquire(ctx, fmt.Sprint("rival", key))
	if err != nil {
		return
	}
	r.granted.Add(1)
	if !r.cells[key].CompareAndSwap(0, who) {
		r.twice.Add(1)
	}
	select {
	case <-time.After(time.Duration(who) * time.Millisecond):
	case <-l.Done():
	}
	r.cells[key].CompareAndSwap(who, 0)
	if r.granted.Load()%9 > 0 {
		_ = l.Release(ctx)
	}
}

// grants returns after the rivals were granted something again.
func (r *rivals) grants(t *testing.T) {
	t.Helper()
	before := r.granted.Load()
	kit.Eventually(t, func() bool { return r.granted.Load() > before+20 }, "the rivals stand still")
}

// upNodes returns how many of the client's nodes are up.
func upNodes(c *lockpipe.Client) (up int) {
	for _, n := range c.Nodes() {
		if n.State == lockpipe.NodeUp {
			up++
		}
	}
	return up
}

// ownerChange is what gives a slot another owner.
type ownerChange struct {
	name string
	take func(c *lockpipetest.Cluster) error
}

// The goal: whatever happens to the owner of a slot, no key has two holders, the client goes on
// with the other nodes, and the node comes back with the new owner.
func TestCluster_ANewOwnerGrantsNothingTwice_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	grantNothingTwice(t, []ownerChange{
		{"a takeover", func(c *lockpipetest.Cluster) error { return c.Takeover(clusterSlots[1]) }},
		{"an owner that hangs", func(c *lockpipetest.Cluster) error {
			return hangs(c, clusterSlots[2])
		}},
		{"a move", func(c *lockpipetest.Cluster) error {
			return c.MoveSlot(clusterSlots[2], clusterSlots[0])
		}},
		{"a move back", func(c *lockpipetest.Cluster) error {
			return c.MoveSlot(clusterSlots[2], clusterSlots[2]+1)
		}},
	})
}

// The goal: the same with what administrators do. .ci/run has it with newer servers too.
func TestCluster_AFailoverAndAMoveGrantNothingTwice_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	grantNothingTwice(t, []ownerChange{
		{"a failover", func(c *lockpipetest.Cluster) error { return c.Failover(clusterSlots[0]) }},
		{"a move", func(c *lockpipetest.Cluster) error {
			return c.MoveSlot(clusterSlots[2], clusterSlots[0])
		}},
	})
}

// grantNothingTwice makes the changes, one after the other, while clients want the same keys.
func grantNothingTwice(t *testing.T, changes []ownerChange) {
	t.Helper()
	c := lockpipetest.StartCluster(t)
	a, b := clusterClient(t, c, nil), clusterClient(t, c, nil)
	kit.Connected(t, a)
	kit.Connected(t, b)
	r := new(rivals)
	stop := r.run(a, b)
	defer stop()
	for _, step := range changes {
		r.grants(t)
		require.NoError(t, step.take(c), step.name)
		if step.name == "a move" { // two slots are on one server now, which has one vote
			isDown := func(c *lockpipe.Client) bool { return shared(c.Nodes()[2].Err) }
			kit.Eventually(t, func() bool { return isDown(a) && isDown(b) }, step.name)
			r.grants(t)
		} else {
			kit.Eventually(t, func() bool { return upNodes(a) < 3 && upNodes(b) < 3 }, step.name)
			r.grants(t)
			kit.Connected(t, a)
			kit.Connected(t, b)
		}
		require.Zero(t, r.twice.Load(), "two holders after %s", step.name)
	}
}

// shared reports whether a node has no vote because another one has that of its server.
func shared(err error) bool {
	return err != nil && strings.Contains(err.Error(), "one server has one vote")
}

// hangs freezes the owner of a slot, and has its replica take over. What the owner was sent before
// it executes later.
func hangs(c *lockpipetest.Cluster, slot int) error {
	owner, err := c.Owner(0, slot)
	if err != nil {
		return err
	}
	if err := c.Servers().Freeze(owner); err != nil {
		return err
	}
	defer func() { _ = c.Servers().Thaw(owner) }()
	return c.Takeover(slot)
}

// The goal: if a partition cuts two of three masters off, and their replicas take over on the other
// side, a client that reaches only the old ones gets no lock as soon as a client gets one that
// reaches only the new ones. The old masters do not know that they are deposed.
func TestCluster_AnOldMajorityOfMastersGrantsNothing_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	c := lockpipetest.StartCluster(t)
	old := []int{0, 1}
	var cut atomic.Bool
	side := func(first bool) func(server int) bool {
		return func(server int) bool { return !cut.Load() || first == slices.Contains(old, server) }
	}
	a, b := clusterClient(t, c, side(true)), clusterClient(t, c, side(false))
	kit.Connected(t, a)
	kit.Connected(t, b)
	r := new(rivals)
	stop := r.run(a, b)
	defer stop()
	r.grants(t)
	c.Cut(old...)
	cut.Store(true)
	for _, slot := range clusterSlots[:2] {
		require.NoError(t, c.Takeover(slot))
	}
	kit.Eventually(t, func() bool { return upNodes(b) < 3 }, "b has not noticed")
	kit.Connected(t, b)
	for range 5 {
		r.grants(t)
	}
	require.Zero(t, r.twice.Load(), "two holders")
	require.Zero(t, upNodes(a))
}

// The goal: a fleet moves from three masters to one cluster, and back. Who is on the way excludes
// those that have not begun, and those that have arrived.
func TestCluster_AFleetMovesThere_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	c, plain := lockpipetest.StartCluster(t), servertest.Start(t, 3)
	group := func(urls ...string) []lockpipe.Group {
		return []lockpipe.Group{{Name: "locks", Nodes: urls}}
	}
	masters, cluster := group(plain.URLs()...), group(c.URL())
	client := func(now, next []lockpipe.Group) *lockpipe.Client {
		cfg := kit.Config(nil, nil)
		cfg.Groups, cfg.Next = now, next
		client, err := lockpipe.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { kit.CloseSoon(client) })
		return kit.Connected(t, client)
	}
	stays, arrived := client(masters, nil), client(cluster, nil)
	for _, moves := range []*lockpipe.Client{client(masters, cluster), client(cluster, masters)} {
		for _, other := range []*lockpipe.Client{stays, arrived} {
			for _, keys := range [][]string{{"one"}, {"one", "two", "three"}} {
				for _, pair := range [][2]*lockpipe.Client{{moves, other}, {other, moves}} {
					l, err := pair[0].TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
					require.NoError(t, err)
					_, err = pair[1].TryAcquireAll(t.Context(), keys)
					require.ErrorIs(t, err, lockpipe.ErrHeld)
					require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
					require.NoError(t, l.Release(t.Context()))
				}
			}
		}
	}
}

// The goal: while each slot moves to another server and back, one after the other, no call fails:
// there are two servers that vote at any time, also when a node comes to a server that has the slot
// of another one, and when it leaves. A node votes again when its wait is over.
func TestCluster_AMoveOfEachSlotFailsNoCall_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	c := lockpipetest.StartCluster(t)
	client := kit.Connected(t, clusterClient(t, c, nil))
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var calls atomic.Int64
	failed := make(chan error, 100)
	for i := range 16 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l, err := client.TryAcquire(t.Context(), fmt.Sprint("key", i, n))
				if calls.Add(1); err != nil {
					select {
					case failed <- err:
					default:
					}
					continue
				}
				_ = l.Release(t.Context())
				time.Sleep(5 * time.Millisecond) // a node that is missed is so for seconds
			}
		})
	}
	defer callers.Wait()
	defer stop()
	waits := func(i int) bool { return client.Nodes()[i].State == lockpipe.NodeQuarantined }
	for i, slot := range clusterSlots {
		for _, move := range []struct{ toOwnerOf, up int }{
			{clusterSlots[(i+1)%3], 2}, {slot + 1, 3},
		} {
			require.NoError(t, c.MoveSlot(slot, move.toOwnerOf))
			kit.Eventually(t, func() bool { return waits(i) }, "node %d has not noticed", i)
			kit.Eventually(t, func() bool { return !waits(i) && upNodes(client) == move.up },
				"node %d waits for too long", i)
			begun := calls.Load()
			kit.Eventually(t, func() bool { return calls.Load() > begun+100 }, "the calls stand still")
		}
	}
	stop()
	callers.Wait()
	close(failed)
	for err := range failed {
		t.Errorf("of %d calls: %v", calls.Load(), err)
	}
}

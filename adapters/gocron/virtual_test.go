package gocronlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/lockpipe/lockpipe"
	gocronlock "github.com/lockpipe/lockpipe/adapters/gocron"
	"github.com/stretchr/testify/require"
)

// world is a group of masters in memory, in a synctest bubble: time passes only while everybody
// waits, so ticks are exact, and a machine that stalls makes nobody late.
type world struct {
	t     *testing.T
	nodes map[string]*miniredis.Miniredis // by their address
	trip  time.Duration                   // the longest to a master
	began time.Time                       // the first tick of those that are not behind
}

func inBubble(t *testing.T, masters int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, nodes: map[string]*miniredis.Miniredis{}, trip: time.Millisecond}
		for i := range masters {
			node := miniredis.NewMiniRedis()
			node.ClockTTL(true)
			conn, err := node.Dial() // starts it
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			t.Cleanup(node.Close)
			w.nodes[fmt.Sprintf("node-%d:6379", i)] = node
		}
		test(t, w)
	})
}

// client returns a further client, connected. It is closed at the end of the test.
func (w *world) client() *lockpipe.Client {
	w.t.Helper()
	cfg := lockpipe.Config{
		Dial: w.dial, TTL: 2 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
	for addr := range w.nodes {
		cfg.Nodes = append(cfg.Nodes, addr)
	}
	client, err := lockpipe.New(cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, client.Close(context.Background())) })
	down := func(node lockpipe.NodeStatus) bool { return node.State != lockpipe.NodeUp }
	for slices.ContainsFunc(client.Nodes(), down) {
		time.Sleep(10 * time.Millisecond)
	}
	return client
}

func (w *world) dial(_ context.Context, _, addr string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	w.nodes[addr].Server().ServeConn(slowConn{theirs, w.trip})
	return ours, nil
}

// slowConn lets each command take a random time to the master, so that contenders reach the masters
// in different orders.
type slowConn struct {
	net.Conn
	trip time.Duration
}

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(rand.N(c.trip))
	return n, err
}

// holders is how many masters have the key.
func (w *world) holders(key string) (n int) {
	for _, node := range w.nodes {
		if node.Exists(key) {
			n++
		}
	}
	return n
}

// instance is one of the processes that have the same job.
type instance struct {
	behind  time.Duration // its ticks, behind those of the others
	refused []error       // what AfterLockError was told
	gocron.Scheduler
}

// start starts an instance, whose job ticks for the first time when began and behind are over.
func (w *world) start(in *instance, client *lockpipe.Client, cfg gocronlock.Config,
	interval time.Duration, job func(),
) {
	w.t.Helper()
	locker, err := gocronlock.New(client, cfg)
	require.NoError(w.t, err)
	in.Scheduler, err = gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	require.NoError(w.t, err)
	_, err = in.NewJob(gocron.DurationJob(interval), gocron.NewTask(job), gocron.WithName("report"),
		gocron.WithStartAt(gocron.WithStartDateTime(w.began.Add(in.behind))),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string,
			err error,
		) {
			in.refused = append(in.refused, err)
		})))
	require.NoError(w.t, err)
	in.Start()
}

package gocronlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/lockpipe/lockpipe"
	gocronlock "github.com/lockpipe/lockpipe/adapters/gocron"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/stretchr/testify/require"
)

// fakeNodes is a group of nodes in memory, in a synctest bubble. Time passes only while all
// goroutines wait. So ticks are exact, also on a busy machine.
type fakeNodes struct {
	t         *testing.T
	nodes     map[string]*memorynode.Node // by their address
	failure   atomic.Value                // the error with which the nodes answer; "" for none
	maxDelay  time.Duration               // the longest of a command to a node
	firstTick time.Time                   // of the instances without a delay
}

func inBubble(t *testing.T, masters int, test func(t *testing.T, f *fakeNodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNodes{t: t, nodes: map[string]*memorynode.Node{}, maxDelay: time.Millisecond}
		f.fail("")
		for i := range masters {
			node := memorynode.New(i, 1)
			node.Before = f.refuse
			t.Cleanup(node.Stop)
			f.nodes[fmt.Sprintf("node-%d:6379", i)] = node
		}
		test(t, f)
	})
}

// fail lets the nodes answer with an error, instead of executing anything. "" ends that.
func (f *fakeNodes) fail(text string) { f.failure.Store(text) }

// refuse returns the error as a reply.
func (f *fakeNodes) refuse([]string) string {
	if text := f.failure.Load().(string); text != "" {
		return "-" + text + "\r\n"
	}
	return ""
}

// newClient returns a new, connected client. It is closed at the end of the test.
func (f *fakeNodes) newClient() *lockpipe.Client {
	f.t.Helper()
	cfg := lockpipe.Config{
		Dial: f.dial, TTL: 2 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
	for addr := range f.nodes {
		cfg.Nodes = append(cfg.Nodes, addr)
	}
	client, err := lockpipe.New(cfg)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, client.Close(context.Background())) })
	down := func(node lockpipe.NodeStatus) bool { return node.State != lockpipe.NodeUp }
	for slices.ContainsFunc(client.Nodes(), down) {
		time.Sleep(10 * time.Millisecond)
	}
	return client
}

func (f *fakeNodes) dial(_ context.Context, _, addr string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go f.nodes[addr].Serve(slowConn{theirs, f.maxDelay})
	return ours, nil
}

// slowConn lets each command take a random time to the node, so that contenders reach the nodes in
// different orders.
type slowConn struct {
	net.Conn
	maxDelay time.Duration
}

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(rand.N(c.maxDelay))
	return n, err
}

// nodesWith returns how many nodes have the key.
func (f *fakeNodes) nodesWith(key string) (n int) {
	for _, node := range f.nodes {
		if _, ok := node.Get(key); ok {
			n++
		}
	}
	return n
}

// instance is one of the processes that have the same job.
type instance struct {
	delay    time.Duration // of its ticks, after those of the others
	lockErrs []error       // the errors that AfterLockError got
	gocron.Scheduler
}

// startInstance starts an instance, whose job first ticks at firstTick plus its delay.
func (f *fakeNodes) startInstance(in *instance, client *lockpipe.Client, cfg gocronlock.Config,
	interval time.Duration, job func(),
) {
	f.t.Helper()
	locker, err := gocronlock.New(client, cfg)
	require.NoError(f.t, err)
	in.Scheduler, err = gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	require.NoError(f.t, err)
	_, err = in.NewJob(gocron.DurationJob(interval), gocron.NewTask(job), gocron.WithName("report"),
		gocron.WithStartAt(gocron.WithStartDateTime(f.firstTick.Add(in.delay))),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string,
			err error,
		) {
			in.lockErrs = append(in.lockErrs, err)
		})))
	require.NoError(f.t, err)
	in.Start()
}

package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	nodeCount  = 3
	defaultTTL = 10 * time.Second // of lockpipe.Config
	// readyTimeout bounds how long NewClient waits for its nodes.
	readyTimeout = 20 * time.Second
	readyPoll    = 100 * time.Microsecond
	// closeTimeout bounds the end of a test that has left calls behind.
	closeTimeout = 20 * time.Second
)

// Client is a lockpipe.Client of three nodes in memory, with switches for what goes wrong.
// NewClient makes it. All methods are safe for concurrent use.
type Client struct {
	*lockpipe.Client

	// Set once.
	t      testing.TB
	prefix string
	maxTTL time.Duration
	nodes  []*node

	mu     sync.Mutex        // guards leases; those of the leases may be taken under it
	leases []*lockpipe.Lease // of the calls of leases.go
}

// NewClient returns a Client whose nodes are connected. Each change is applied to its
// configuration: by default a TTL of 10 s, no log, and calls that do not fail if the machine is
// slow. Nodes, Dial, TLS and Credentials are always those of the fake. When the test ends, the
// Client and its nodes are closed; leases that are still held are released. NewClient fails the
// test at once if the configuration is invalid. It must be called from the goroutine of the test.
func NewClient(t testing.TB, change ...func(*lockpipe.Config)) *Client {
	t.Helper()
	cfg := lockpipe.Config{Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	if cfg.NodeTimeout == 0 {
		// As long as possible, for machines that stand still for a while. The nodes always answer.
		ttl := cmp.Or(cfg.TTL, min(defaultTTL, cmp.Or(cfg.MaxTTL, defaultTTL)))
		cfg.NodeTimeout = ttl.Truncate(time.Millisecond)
	}
	maxTTL := cmp.Or(cfg.MaxTTL, cfg.TTL, defaultTTL).Truncate(time.Millisecond)
	c := &Client{t: t, prefix: cfg.Prefix, maxTTL: maxTTL}
	cfg.Nodes, cfg.TLS, cfg.Credentials = nil, nil, nil
	for i := range nodeCount {
		n := startNode(fmt.Sprintf("fake-%d:6379", i), cfg.Prefix)
		t.Cleanup(n.Stop)
		c.nodes, cfg.Nodes = append(c.nodes, n), append(cfg.Nodes, n.addr)
	}
	cfg.Dial = c.dial
	client, err := lockpipe.New(cfg)
	if err != nil {
		t.Fatalf("fake: %v", err)
	}
	c.Client = client
	t.Cleanup(c.close)
	c.awaitNodes()
	return c
}

// awaitNodes returns when all nodes are up.
func (c *Client) awaitNodes() {
	c.t.Helper()
	notUp := func(n lockpipe.NodeStatus) bool { return n.State != lockpipe.NodeUp }
	for end := time.Now().Add(readyTimeout); slices.ContainsFunc(c.Nodes(), notUp); {
		if time.Now().After(end) {
			c.t.Fatalf("fake: a node did not come up: %+v", c.Nodes())
		}
		time.Sleep(readyPoll)
	}
}

// close ends the client while its nodes answer, so that it waits for nothing.
func (c *Client) close() {
	c.StartVotes()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		c.t.Errorf("fake: close: %v", err)
	}
}

// Hold gives the keys to another holder, who keeps them until Free. Acquiring calls return
// ErrHeld, or wait. If a lease has a key, that key is taken away from it. The Client then finds out
// as in production: at the lease's next extension, or not at all.
func (c *Client) Hold(keys ...string) {
	for _, key := range keys {
		for _, n := range c.nodes {
			n.hold(c.prefix + key)
		}
	}
}

// Free ends the other holder's hold of the keys. Leases keep their keys. Calls that wait for one
// of the keys are notified, and try again.
func (c *Client) Free(keys ...string) {
	for _, key := range keys {
		for _, n := range c.nodes {
			n.free(c.prefix + key)
		}
	}
}

// Lose ends each lease that has key, with ErrLost, as if an extension had found that another has
// its keys. When Lose returns, the context of the lease is cancelled, and the other holds all its
// keys until Free. Lose fails the test, without ending it, if no lease has key, or while votes are
// stopped.
//
// Lose and Expire know the leases of all calls of this Client. They don't know those of calls of
// its field Client: for these take WithAutoExtend, Hold the key in a bubble, and let the time pass.
func (c *Client) Lose(key string) {
	c.t.Helper()
	c.end("Lose", key, lockpipe.ErrLost, func(l *lockpipe.Lease) {
		c.Hold(l.Keys()...)
		_ = l.Extend(context.Background(), c.maxTTL) // finds it lost
	})
}

// Expire lets the time of each lease that has key run out, within 10 ms: it ends with ErrExpired.
// When Expire returns, the context of the lease is cancelled, and its keys are free. While votes
// are stopped, the keys stay on the nodes. Expire fails the test, without ending it, if no lease
// has key, or if the Client extends the lease: with WithAutoExtend a lease is lost, or lasts until
// its maxHold.
func (c *Client) Expire(key string) {
	c.t.Helper()
	const shortest, patience = 10 * time.Millisecond, 100 * time.Millisecond
	c.end("Expire", key, lockpipe.ErrExpired, func(l *lockpipe.Lease) {
		_ = l.Extend(context.Background(), shortest) // a shorter time counts whatever nodes answer
		expired := time.NewTimer(patience)
		defer expired.Stop()
		select {
		case <-l.Done():
		case <-expired.C:
			if l.Err() == nil {
				return // it is extended
			}
		}
		c.awaitCleanUp(l)
	})
}

// awaitCleanUp returns when the Client has deleted the keys of a lease that expired, which it does
// in the background.
func (c *Client) awaitCleanUp(l *lockpipe.Lease) {
	c.t.Helper()
	for end := time.Now().Add(readyTimeout); time.Now().Before(end); time.Sleep(readyPoll) {
		if !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.keeps(c.prefix, l) }) {
			return
		}
	}
	c.t.Errorf("fake: Expire: keys of the lease are still on a node: %.64q", l.Keys())
}

// end ends the leases that have key, and checks how they ended.
func (c *Client) end(verb, key string, want error, end func(*lockpipe.Lease)) {
	c.t.Helper()
	leases := c.holding(key)
	if len(leases) == 0 {
		c.t.Errorf("fake: %s(%q): no lease of this Client has it", verb, key)
	}
	for _, l := range leases {
		if end(l); !errors.Is(l.Err(), want) {
			c.t.Errorf("fake: %s(%q): the lease ended otherwise: %v", verb, key, l.Err())
		}
	}
}

// StopVotes lets every node answer acquires, extensions and releases with an error, as a node does
// that is out of memory. Calls return ErrNoQuorum at once, or wait. Leases last until their time
// runs out.
func (c *Client) StopVotes() {
	for _, n := range c.nodes {
		n.failing.Store(true)
	}
}

// StartVotes ends StopVotes. Calls that wait try again soon, and so do releases that failed.
func (c *Client) StartVotes() {
	for _, n := range c.nodes {
		n.failing.Store(false)
	}
}

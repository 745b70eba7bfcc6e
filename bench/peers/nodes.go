package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	benchnodes "github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/redis/rueidis"
)

// nodes are the masters that all contenders share, with a connection of our own to each: the checks
// look at the keys past the contenders.
type nodes struct {
	urls []string
	// backend says what the nodes are, for the heading.
	backend string
	// local is nil if the user named running servers.
	local *lockpipetest.Nodes
	admin []rueidis.Client
	// version is what the first node says of itself.
	version string
	// delays are what dial adds to what a node says, by address; nil for none.
	delays map[string]time.Duration

	// tracking: the first node can notify clients of changed keys. noloop: it is safe to spare them
	// their own changes.
	tracking, noloop bool
}

// openNodes starts or joins the nodes of a spec: "local:N", or a comma-separated list of URLs.
func openNodes(ctx context.Context, spec string) (*nodes, error) {
	plan, err := benchnodes.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("-nodes: %w", err)
	}
	opened, err := plan.Open()
	if err != nil {
		return nil, err
	}
	n := &nodes{urls: opened.URLs, backend: "named by -nodes", local: opened.Started}
	if n.local != nil {
		n.backend = n.local.Backend()
	}
	if n.admin, err = rueidisClients(n); err != nil {
		n.close()
		return nil, fmt.Errorf("connect to %v: %w", plan, err)
	}
	n.probe(ctx)
	return n, nil
}

func (n *nodes) close() {
	closeClients(n.admin)
	if n.local != nil {
		_ = n.local.Close()
	}
}

// freeze stops the last node, thaw lets it go on. The last one, because the libraries of one node
// live on the first.
func (n *nodes) freeze() error { return n.local.Freeze(len(n.urls) - 1) }

func (n *nodes) thaw() error { return n.local.Thaw(len(n.urls) - 1) }

// probe asks the first node what rueidislock may rely on. A node that does not say can do nothing.
func (n *nodes) probe(ctx context.Context) {
	c := n.admin[0]
	for _, r := range c.DoMulti(ctx, c.B().Arbitrary("CLIENT", "TRACKING", "ON", "OPTIN").Build(),
		c.B().Arbitrary("CLIENT", "TRACKING", "OFF").Build()) {
		n.tracking = r.Error() == nil
	}
	info, err := c.Do(ctx, c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return
	}
	n.version = resp.ParseInfo(info)["redis_version"]
	var major, minor, patch int
	_, _ = fmt.Sscanf(n.version, "%d.%d.%d", &major, &minor, &patch)
	n.noloop = major > 7 || major == 7 && (minor > 0 || patch >= 5)
}

// left counts the keys under a tag over all nodes. Nodes that decide at quorum answer the last
// releases a moment later, so it waits a while for zero.
func (n *nodes) left(ctx context.Context, tag string) (int, error) {
	const wait = 3 * time.Second
	deadline := time.Now().Add(wait)
	for {
		sum := 0
		for _, c := range n.admin {
			found, err := scan(ctx, c, "*"+keyPrefix(tag)+"*")
			if err != nil {
				return 0, err
			}
			sum += found
		}
		if sum == 0 || time.Now().After(deadline) {
			return sum, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func scan(ctx context.Context, c rueidis.Client, pattern string) (found int, err error) {
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match(pattern).Count(
			1000).Build()).AsScanEntry()
		if err != nil {
			return 0, err
		}
		found += len(page.Elements)
		if cursor = page.Cursor; cursor == 0 {
			return found, nil
		}
	}
}

// keyPrefix begins every key of one contestant. All tags have the same length, so all keys do.
func keyPrefix(tag string) string { return "peers:" + tag + ":" }

// verify holds a contender to what a lock is, seen from outside: it takes a free key and gives it
// back, it does not take a key that somebody else holds, alone or among others, and it does not
// delete it.
func verify(ctx context.Context, c Contender, n *nodes) error {
	key := keyPrefix("vv") + c.Name()
	other := key + ":other"
	wire := func(key string) []string { return []string{key} }
	if nm, ok := c.(wireNamer); ok {
		wire = nm.WireNames
	}
	if err := sometime(ctx, func() error { return c.LockUnlock(ctx, key) }); err != nil {
		return fmt.Errorf("a free key: %w", err)
	}
	if err := n.expectHolders(ctx, wire(key), 0); err != nil {
		return fmt.Errorf("after the release: %w", err)
	}
	if err := n.each(ctx, wire(key), "SET", "somebody else", "PX", ttlMillis); err != nil {
		return err
	}
	if c.LockUnlock(ctx, key) == nil {
		return errors.New("it took a key that somebody else holds")
	}
	if c.LockUnlockMany(ctx, []string{other, key}) == nil {
		return errors.New("it took two keys of which somebody else holds one")
	}
	if err := n.expectHolders(ctx, wire(key), len(n.admin)); err != nil {
		return fmt.Errorf("somebody else's key: %w", err)
	}
	if err := n.each(ctx, wire(key), "DEL"); err != nil {
		return err
	}
	if err := sometime(ctx, func() error {
		return c.LockUnlockMany(ctx, []string{
			other,
			key,
		})
	}); err != nil {
		return fmt.Errorf("two free keys: %w", err)
	}
	return n.expectHolders(ctx, append(wire(other), wire(key)...), 0)
}

// sometime calls until a call succeeds, and returns why none did. That a node was late once, on a
// machine that is busy with other things, does not say that a contender is no lock.
func sometime(ctx context.Context, call func() error) (err error) {
	for range 10 {
		if err = call(); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// each runs one command for each key on each node: verb key rest...
func (n *nodes) each(ctx context.Context, keys []string, verb string, rest ...string) error {
	for _, c := range n.admin {
		for _, key := range keys {
			if err := c.Do(ctx, c.B().Arbitrary(verb,
				key).Args(rest...).Build()).Error(); err != nil {
				return fmt.Errorf("%s %s: %w", verb, key, err)
			}
		}
	}
	return nil
}

// expectHolders wants each key on so many nodes. For none, less than a quorum is good enough after
// a moment: a straggler does not lock anybody out, and the column "left" counts it.
func (n *nodes) expectHolders(ctx context.Context, keys []string, want int) error {
	for _, key := range keys {
		var holders int
		for range 50 {
			holders = 0
			for _, c := range n.admin {
				count, err := c.Do(ctx, c.B().Exists().Key(key).Build()).AsInt64()
				if err != nil {
					return err
				}
				holders += int(count)
			}
			if holders == want || want == 0 && holders < len(n.admin)/2+1 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if holders != want && (want != 0 || holders >= len(n.admin)/2+1) {
			return fmt.Errorf("%s is on %d nodes instead of %d", key, holders, want)
		}
	}
	return nil
}

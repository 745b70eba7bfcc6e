package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockpipe/lockpipe"
)

// lockpipeContender is lockpipe with its defaults: also its timeout per node, which is far shorter
// than the peers'.
type lockpipeContender struct {
	client *lockpipe.Client
}

func openLockpipe(n *nodes) (Contender, error) {
	client, err := lockpipe.New(lockpipe.Config{
		Nodes:  n.urls,
		TTL:    ttl,
		MaxTTL: time.Minute, // the largest lockpipeLeases of held leases has a longer TTL
		Dial:   n.dialer(),
		// The frozen scenario loses and regains a node on purpose; its log lines would run through
		// the table.
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return &lockpipeContender{client}, nil
}

func (c *lockpipeContender) Name() string { return lockpipeName }

func (c *lockpipeContender) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = c.client.Close(ctx)
}

func (c *lockpipeContender) LockUnlock(ctx context.Context, key string) error {
	lease, err := c.client.TryAcquire(ctx, key)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// LockUnlockMany uses the call that tries once: AcquireAll would hide a failed attempt behind a
// second one, which no other contender is allowed.
func (c *lockpipeContender) LockUnlockMany(ctx context.Context, keys []string) error {
	lease, err := c.client.TryAcquireAll(ctx, keys)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// Lock implements locker.
func (c *lockpipeContender) Lock(ctx context.Context, key string) (func() error, error) {
	lease, err := c.client.TryAcquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return func() error { return lease.Release(ctx) }, nil
}

// Wait implements waiter. It has its own way to wait, so retry has no effect.
func (c *lockpipeContender) Wait(ctx context.Context, key string, _ time.Duration) (func() error,
	error,
) {
	lease, err := c.client.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return func() error { return lease.Release(ctx) }, nil
}

// AwaitReady implements readyAwaiter: it waits until every node is up.
func (c *lockpipeContender) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		late := ""
		for _, node := range c.client.Nodes() {
			if node.State != lockpipe.NodeUp {
				late = fmt.Sprintf("node %s is %v: %v", node.Addr, node.State, node.Err)
			}
		}
		if late == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", late, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

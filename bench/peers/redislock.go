package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockContender is bsm/redislock: one server, no quorum. It pays for one node of what the
// others pay for all, and its locks are gone when that node is.
type redislockContender struct {
	client *redis.Client
	locker *redislock.Client
}

func openRedislock(n *nodes) (Contender, error) {
	client, err := goredisClient(n, n.urls[0])
	if err != nil {
		return nil, err
	}
	return &redislockContender{client, redislock.New(client)}, nil
}

func (c *redislockContender) Name() string { return "redislock" }

func (c *redislockContender) Close() { _ = c.client.Close() }

func (c *redislockContender) LockUnlock(ctx context.Context, key string) error {
	lock, err := c.locker.Obtain(ctx, key, ttl, nil)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

// redislockRetry is the least that redislock's documentation recommends for its exponential
// back-off; its examples have 100 and 500 ms. By default it doesn't wait at all.
const redislockRetry = 16 * time.Millisecond

// Wait implements waiter.
func (c *redislockContender) Wait(ctx context.Context, key string,
	retry time.Duration,
) (func() error, error) {
	if retry == 0 {
		retry = redislockRetry
	}
	lock, err := c.locker.Obtain(ctx, key, ttl,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)})
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(ctx) }, nil
}

func (c *redislockContender) LockUnlockMany(ctx context.Context, keys []string) error {
	return eachKey(keys, func(key string) (func() error, error) {
		lock, err := c.locker.Obtain(ctx, key, ttl, nil)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(ctx) }, nil
	})
}

package main

import (
	"context"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockContender is bsm/redislock: one server, no quorum. It pays for one node of what the others pay for all, and
// its locks are gone when that node is.
type redislockContender struct {
	client *redis.Client
	locker *redislock.Client
}

func openRedislock(n *nodes) (Contender, error) {
	client, err := goredisClient(n.urls[0])
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

func (c *redislockContender) LockUnlockMany(ctx context.Context, keys []string) error {
	return eachKey(keys, func(key string) (func() error, error) {
		lock, err := c.locker.Obtain(ctx, key, ttl, nil)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(ctx) }, nil
	})
}

package main

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockContender is rueidis' own lock: a majority of several keys on ONE server (or one
// Cluster), kept alive by a goroutine per key until it is given back.
type rueidislockContender struct {
	name   string
	keys   int
	locker rueidislock.Locker
}

// rueidislockPrefix is the library's default, said aloud because WireNames needs it.
const rueidislockPrefix = "rueidislock"

// openRueidislock gives each lock as many keys as there are nodes, so that it does as much work as
// a quorum lock.
func openRueidislock(n *nodes) (Contender, error) {
	return newRueidislock("rueidislock", n, len(n.urls)/2+1)
}

// openRueidislockOneKey is what the library advises for a single server.
func openRueidislockOneKey(n *nodes) (Contender, error) {
	return newRueidislock("rueidislock-onekey", n, 1)
}

func newRueidislock(name string, n *nodes, majority int) (Contender, error) {
	opt, err := rueidis.ParseURL(n.urls[0])
	if err != nil {
		return nil, err
	}
	opt.ForceSingleClient = true
	// Servers without client tracking (in-process ones) can only be used without the cache.
	opt.DisableCache = !n.tracking
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyPrefix:   rueidislockPrefix,
		KeyValidity: ttl,
		KeyMajority: int32(majority),
		// The default of 20 ms gives up under load; see nodeTimeout.
		TryNextAfter: nodeTimeout,
		// Advised by the library for every server that it is safe on.
		NoLoopTracking: n.noloop,
		ClientOption:   opt,
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockContender{name, 2*majority - 1, locker}, nil
}

func (c *rueidislockContender) Name() string { return c.name }

func (c *rueidislockContender) Close() { c.locker.Close() }

// LockUnlock counts on cancel to wait until every key's goroutine has sent its deletion and ended.
func (c *rueidislockContender) LockUnlock(ctx context.Context, key string) error {
	_, unlock, err := c.locker.TryWithContext(ctx, key)
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// Wait implements waiter. The server reports each deleted key (client tracking), and one waiter of
// the locker tries then, so retry has no effect. Without client tracking it would try again after
// TryNextAfter.
func (c *rueidislockContender) Wait(ctx context.Context, key string, _ time.Duration) (func() error,
	error,
) {
	_, unlock, err := c.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return func() error { unlock(); return nil }, nil
}

// LockUnlockMany is a loop. The library reports no outcome of a release.
func (c *rueidislockContender) LockUnlockMany(ctx context.Context, keys []string) error {
	return eachKey(keys, func(key string) (func() error, error) {
		_, unlock, err := c.locker.TryWithContext(ctx, key)
		if err != nil {
			return nil, err
		}
		return func() error { unlock(); return nil }, nil
	})
}

// WireNames implements wireNamer.
func (c *rueidislockContender) WireNames(key string) []string {
	all := make([]string, c.keys)
	for i := range all {
		all[i] = rueidislockPrefix + ":" + strconv.Itoa(i) + ":" + key
	}
	return all
}

package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
)

// redsyncContender is redsync over either client library: one pool per node, one try, everything
// else as it comes.
type redsyncContender struct {
	name     string
	rs       *redsync.Redsync
	options  []redsync.Option
	parallel bool
	close    func()
}

func newRedsync(name string, pools []redsyncredis.Pool, closePools func()) *redsyncContender {
	return &redsyncContender{
		name:    name,
		rs:      redsync.New(pools...),
		options: []redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(1)},
		close:   closePools,
	}
}

func (c *redsyncContender) Name() string { return c.name }

func (c *redsyncContender) Close() { c.close() }

// errNotReleased stands for redsync's (false, nil).
var errNotReleased = errors.New("not released on a quorum")

// lock makes a Mutex per lock, as redsync wants it: a Mutex holds the value of one acquisition.
func (c *redsyncContender) lock(ctx context.Context, key string,
	more ...redsync.Option,
) (func() error, error) {
	m := c.rs.NewMutex(key, slices.Concat(c.options, more)...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ok, err := m.UnlockContext(ctx)
		if err == nil && !ok {
			err = errNotReleased
		}
		if ok {
			// A minority that did not answer is no failure of a quorum lock.
			err = nil
		}
		return err
	}, nil
}

func (c *redsyncContender) LockUnlock(ctx context.Context, key string) error {
	unlock, err := c.lock(ctx, key)
	if err != nil {
		return err
	}
	return unlock()
}

// Lock implements locker.
func (c *redsyncContender) Lock(ctx context.Context, key string) (func() error, error) {
	return c.lock(ctx, key)
}

// Wait implements waiter. By default redsync gives up after 32 tries; here it never does, and
// between two tries it waits for its own random time, 50 to 250 ms.
func (c *redsyncContender) Wait(ctx context.Context, key string, retry time.Duration) (func() error,
	error,
) {
	options := []redsync.Option{redsync.WithTries(math.MaxInt)}
	if retry > 0 {
		options = append(options, redsync.WithRetryDelay(retry))
	}
	return c.lock(ctx, key, options...)
}

func (c *redsyncContender) LockUnlockMany(ctx context.Context, keys []string) error {
	lock := func(key string) (func() error, error) { return c.lock(ctx, key) }
	if !c.parallel {
		return eachKey(keys, lock)
	}
	unlocks := make([]func() error, len(keys))
	failed := concurrently(len(keys), func(i int) (err error) {
		unlocks[i], err = lock(keys[i])
		return err
	})
	return errors.Join(failed, concurrently(len(keys), func(i int) error {
		if unlocks[i] == nil {
			return nil
		}
		return unlocks[i]()
	}))
}

// concurrently runs do(0) to do(n-1) at the same time and returns one of their errors.
func concurrently(n int, do func(i int) error) error {
	var (
		wg     sync.WaitGroup
		once   sync.Once
		failed error
	)
	for i := range n {
		wg.Go(func() {
			if err := do(i); err != nil {
				once.Do(func() { failed = err })
			}
		})
	}
	wg.Wait()
	return failed
}

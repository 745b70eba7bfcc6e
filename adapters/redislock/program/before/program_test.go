package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
)

// stock is usual code over redislock. program/before has it with redislock, program/after with the
// adapter.
type stock struct {
	locker *redislock.Client
	retry  redislock.RetryStrategy
	left   int
}

// once does its work unless another process does it already.
func (s *stock) once(ctx context.Context, key string) (done bool, err error) {
	lock, err := s.locker.Obtain(ctx, key, time.Minute, nil)
	if err == redislock.ErrNotObtained {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer lock.Release(ctx)
	s.left--
	return true, nil
}

// take waits for its turn, and refreshes the lock for the second half of its work.
func (s *stock) take(ctx context.Context, sku string) (err error) {
	lock, err := s.locker.Obtain(ctx, "stock:"+sku, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LimitRetry(s.retry, 1000),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("%s is busy: %w", sku, err)
	}
	if err != nil {
		return err
	}
	defer func() {
		end := lock.Release(context.WithoutCancel(ctx))
		if !errors.Is(end, redislock.ErrLockNotHeld) {
			err = errors.Join(err, end)
		}
	}()
	s.left--
	return s.book(ctx, lock)
}

func (s *stock) book(ctx context.Context, lock *redislock.Lock) error {
	if err := lock.Refresh(ctx, time.Minute, nil); err != nil {
		return fmt.Errorf("%s: %w", lock.Key(), err)
	}
	if ttl, err := lock.TTL(ctx); err != nil || ttl == 0 {
		return fmt.Errorf("%s, token %s: lost: %w", lock.Key(), lock.Token(), err)
	}
	return nil
}

// swap has two locks at once.
func (s *stock) swap(ctx context.Context, from, to string) error {
	retry := redislock.ExponentialBackoff(5*time.Millisecond, time.Second)
	lock, err := s.locker.ObtainMulti(ctx, []string{"stock:" + from, "stock:" + to}, time.Minute,
		&redislock.Options{RetryStrategy: retry})
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

package redislock

import (
	"context"
	"sync/atomic"
	"time"
)

// RetryStrategy says when to try again.
type RetryStrategy interface {
	// NextBackoff returns the delay before the next try; 0 or less ends the tries. Obtain calls it
	// on a goroutine of its own, but not after Obtain has returned.
	NextBackoff() time.Duration
}

type strategyFunc func() time.Duration

func (f strategyFunc) NextBackoff() time.Duration { return f() }

// NoRetry returns a strategy of one try.
func NoRetry() RetryStrategy { return LinearBackoff(0) }

// LinearBackoff returns a strategy whose delays are all the same.
func LinearBackoff(backoff time.Duration) RetryStrategy {
	return strategyFunc(func() time.Duration { return backoff })
}

// LimitRetry returns a strategy with at most n delays of s. As redislock's it counts them for all
// calls that use it, so make one for each call.
func LimitRetry(s RetryStrategy, n int) RetryStrategy {
	var used atomic.Int64
	return strategyFunc(func() time.Duration {
		if used.Load() >= int64(n) {
			return 0
		}
		used.Add(1)
		return s.NextBackoff()
	})
}

// ExponentialBackoff returns a strategy whose delays are 4 ms, 8 ms and so on, from shortest to
// longest, if that is not 0. As redislock's it has a memory, so make one for each call.
func ExponentialBackoff(shortest, longest time.Duration) RetryStrategy {
	const longestPower = 26
	var power atomic.Int64
	return strategyFunc(func() time.Duration {
		d := time.Millisecond << min(power.Add(1)+1, longestPower)
		if d > longest && longest != 0 {
			d = longest
		}
		return max(d, shortest)
	})
}

func (o *Options) retryStrategy() RetryStrategy {
	if o == nil || o.RetryStrategy == nil {
		return NoRetry()
	}
	return o.RetryStrategy
}

// retryContext returns a context that ends when delay and all further delays of retry are over,
// each at least a millisecond. The caller must always call stop.
func retryContext(ctx context.Context, retry RetryStrategy, delay time.Duration) (
	retryCtx context.Context, stop func(),
) {
	retryCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	ended := retryCtx.Done()
	go func() {
		defer close(done)
		defer cancel()
		for ; delay > 0; delay = retry.NextBackoff() {
			select {
			case <-time.After(max(delay, time.Millisecond)):
			case <-ended:
				return
			}
		}
	}()
	return retryCtx, func() {
		cancel()
		<-done
	}
}

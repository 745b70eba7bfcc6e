package orders

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// Redsynced is Locked with redsync's mutexes, one for each product, in ascending order. A caller
// that waits asks again after a random delay.
type Redsynced struct {
	Store      *Store
	Locks      *redsync.Redsync
	Pay        Pay
	RetryDelay time.Duration // zero: redsync's own, 50 to 250 ms at random
}

// Place implements Shop.
func (s Redsynced) Place(ctx context.Context, o Order) error {
	options := []redsync.Option{redsync.WithExpiry(leaseTTL), redsync.WithTries(math.MaxInt32)}
	if s.RetryDelay > 0 {
		options = append(options, redsync.WithRetryDelay(s.RetryDelay))
	}
	var until time.Time // when the first of the locks ends
	for _, key := range keys(o) {
		lock := s.Locks.NewMutex("redsync:"+key, options...)
		if err := lock.LockContext(ctx); err != nil {
			return err
		}
		defer lock.UnlockContext(context.WithoutCancel(ctx)) //nolint:errcheck // it expires
		if until.IsZero() || lock.Until().Before(until) {
			until = lock.Until()
		}
	}
	lockCtx, cancel := context.WithDeadline(ctx, until) // no statement starts after it
	defer cancel()
	found, err := s.Store.inStock(lockCtx, o.Products)
	if err != nil {
		return err
	}
	if err := found.check(o); err != nil {
		return err
	}
	if err := s.Pay(lockCtx, o); err != nil {
		return err
	}
	return s.Store.sell(lockCtx, o)
}

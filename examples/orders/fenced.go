package orders

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe"
)

// Fenced is Locked for holders that may be late. The first statement under the lease raises the
// fence of its products. From then on the database refuses the writes of earlier leases. So what is
// read next holds until the write, also if an earlier holder is about to wake up. A comparison in
// the write alone would let that holder write in between.
type Fenced struct {
	Store *Store
	Locks *lockpipe.Client
	Pay   Pay
}

// Place implements Shop.
func (s Fenced) Place(ctx context.Context, o Order) (err error) {
	lease, err := s.Locks.AcquireAll(ctx, keys(o), lockpipe.WithTTL(leaseTTL),
		lockpipe.WithFencing())
	if err != nil {
		return err
	}
	defer release(ctx, lease)
	defer because(lease, &err)
	leaseCtx, fence := lease.Bind(ctx), lease.Fence()
	fenceErr := s.Store.raise(leaseCtx, o, fence)
	if fenceErr != nil && !errors.Is(fenceErr, ErrLate) {
		return fenceErr
	}
	found, err := s.Store.inStock(leaseCtx, o.Products)
	if err != nil {
		return err
	}
	if err := found.check(o); err != nil { // a product that does not exist has no fence either
		return err
	}
	if fenceErr != nil {
		return fenceErr
	}
	if err := s.Pay(leaseCtx, o); err != nil {
		return err
	}
	return s.Store.sellFenced(leaseCtx, o, fence)
}

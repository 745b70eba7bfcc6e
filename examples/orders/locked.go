package orders

import (
	"context"

	"github.com/lockpipe/lockpipe"
)

// Locked holds locks outside of the database, and a connection only for each statement. If a holder
// is paused between its last check of the lease and its write, it can still write after the lease
// has ended: that is what Fenced is for.
type Locked struct {
	Store *Store
	Locks *lockpipe.Client
	Pay   Pay
}

// Place implements Shop.
func (s Locked) Place(ctx context.Context, o Order) (err error) {
	lease, err := s.Locks.AcquireAll(ctx, keys(o), lockpipe.WithTTL(leaseTTL))
	if err != nil {
		return err
	}
	defer release(ctx, lease)
	defer because(lease, &err)
	leaseCtx := lease.Bind(ctx) // no statement starts after the lease has ended
	found, err := s.Store.inStock(leaseCtx, o.Products)
	if err != nil {
		return err
	}
	if err := found.check(o); err != nil {
		return err
	}
	if err := s.Pay(leaseCtx, o); err != nil {
		return err
	}
	return s.Store.sell(leaseCtx, o)
}

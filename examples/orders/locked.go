package orders

import (
	"context"

	"github.com/lockpipe/lockpipe"
)

// Locked holds locks outside of the database, and a connection only for as long as a statement
// takes. A holder that is stopped between its last look at the lease and its write can still write
// when the lease is over: that is what Fenced is for.
type Locked struct {
	Store *Store
	Locks *lockpipe.Client
	Pay   Pay
}

// Place implements Shop.
func (s Locked) Place(ctx context.Context, o Order) error {
	lease, err := s.Locks.AcquireAll(ctx, keys(o), lockpipe.WithTTL(leaseTime))
	if err != nil {
		return err
	}
	defer release(ctx, lease)
	held := lease.Context() // nothing is begun when the lease is over
	found, err := s.Store.look(held, o.Products)
	if err != nil {
		return err
	}
	if err := found.serve(o); err != nil {
		return err
	}
	if err := s.Pay(held, o); err != nil {
		return err
	}
	return s.Store.sell(held, o)
}

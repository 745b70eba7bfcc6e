package orders

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe"
)

// Fenced is Locked for holders that may be late. The first statement under the lease raises the
// fence of its products, and from then on the database refuses what earlier leases still send. So
// what is read next holds until the write, also where an earlier holder is about to wake up: a
// comparison in the write alone would let it write in between.
type Fenced struct {
	Store *Store
	Locks *lockpipe.Client
	Pay   Pay
}

// Place implements Shop.
func (s Fenced) Place(ctx context.Context, o Order) error {
	lease, err := s.Locks.AcquireAll(ctx, keys(o), lockpipe.WithTTL(leaseTime),
		lockpipe.WithFencing())
	if err != nil {
		return err
	}
	defer release(ctx, lease)
	held, fence := lease.Context(), lease.Fence()
	late := s.Store.raise(held, o, fence)
	if late != nil && !errors.Is(late, ErrLate) {
		return late
	}
	found, err := s.Store.look(held, o.Products)
	if err != nil {
		return err
	}
	if err := found.serve(o); err != nil { // a product that does not exist has no fence either
		return err
	}
	if late != nil {
		return late
	}
	if err := s.Pay(held, o); err != nil {
		return err
	}
	return s.Store.sellFenced(held, o, fence)
}

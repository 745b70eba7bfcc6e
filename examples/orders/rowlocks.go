package orders

import (
	"context"
	"database/sql"
)

// RowLocks holds the rows of the products, and with them a transaction and its connection, from the
// look at the stock to the commit.
type RowLocks struct {
	Store *Store
	Pay   Pay
}

// Place implements Shop.
func (s RowLocks) Place(ctx context.Context, o Order) error {
	return s.Store.transact(ctx, func(tx *sql.Tx) error {
		found, err := s.Store.lookAndLock(ctx, tx, o.Products)
		if err != nil {
			return err
		}
		if err := found.serve(o); err != nil {
			return err
		}
		if err := s.Pay(ctx, o); err != nil {
			return err
		}
		return s.Store.sellWithin(ctx, tx, o)
	})
}

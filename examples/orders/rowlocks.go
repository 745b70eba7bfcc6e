package orders

import (
	"context"
	"database/sql"
)

// RowLocks locks the rows of the products, and so holds a transaction and its connection, from the
// check of the stock to the commit.
type RowLocks struct {
	Store *Store
	Pay   Pay
}

// Place implements Shop.
func (s RowLocks) Place(ctx context.Context, o Order) error {
	return s.Store.inTransaction(ctx, func(tx *sql.Tx) error {
		found, err := s.Store.lockInStock(ctx, tx, o.Products)
		if err != nil {
			return err
		}
		if err := found.check(o); err != nil {
			return err
		}
		if err := s.Pay(ctx, o); err != nil {
			return err
		}
		return s.Store.sellWithin(ctx, tx, o)
	})
}

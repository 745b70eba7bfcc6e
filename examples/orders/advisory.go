package orders

import (
	"context"
	"database/sql"
)

// Advisory takes PostgreSQL's advisory locks instead of row locks, in ascending order. Like
// RowLocks it holds a transaction and its connection, also while it waits. The rows stay free:
// writers that take no advisory lock are not stopped.
type Advisory struct {
	Store *Store
	Pay   Pay
}

// Place implements Shop.
func (s Advisory) Place(ctx context.Context, o Order) error {
	return s.Store.inTransaction(ctx, func(tx *sql.Tx) error {
		// The next statement sees what the last holder committed: it has a snapshot of its own.
		if _, err := s.Store.exec(ctx, tx, "SELECT pg_advisory_xact_lock(id) FROM"+
			" unnest(?::bigint[]) AS wanted (id)", o.Products); err != nil {
			return err
		}
		found, err := s.Store.ids(ctx, tx, "SELECT id FROM products WHERE stock > 0 AND "+
			s.Store.among, o.Products)
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

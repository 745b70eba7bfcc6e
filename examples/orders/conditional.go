package orders

import (
	"context"
	"errors"
)

// Conditional takes the pieces first, in one statement with the condition that they are there. It
// pays afterwards, with neither a lock nor a connection, and gives the pieces back if the payment
// fails. Other customers meanwhile see less stock than is sold. If the process dies during the
// payment, the pieces stay taken by an order that is not paid, until somebody looks for these.
// It needs PostgreSQL.
type Conditional struct {
	Store *Store
	Pay   Pay
}

// Place implements Shop.
func (s Conditional) Place(ctx context.Context, o Order) error {
	taken, err := s.Store.reserve(ctx, o)
	if err != nil {
		return err
	}
	if !taken {
		return ErrSoldOut
	}
	if err := s.Pay(ctx, o); err != nil {
		return errors.Join(err, s.Store.giveBack(context.WithoutCancel(ctx), o))
	}
	_, err = s.Store.exec(context.WithoutCancel(ctx), s.Store.db,
		"UPDATE items SET paid = TRUE WHERE order_id = ?", o.ID)
	return err
}

// reserve takes the pieces for an order that is not paid, all or none. It locks the rows in
// ascending order. An UPDATE alone would lock them in the order of its plan, and two orders could
// wait for each other.
func (s *Store) reserve(ctx context.Context, o Order) (taken bool, err error) {
	return changed(s.exec(ctx, s.db, "WITH wanted AS (SELECT id FROM products WHERE "+s.among+
		" AND stock >= 1 ORDER BY id FOR UPDATE), taken AS (UPDATE products SET stock = stock - 1"+
		" WHERE id IN (SELECT id FROM wanted) AND (SELECT COUNT(*) FROM wanted) = ?::bigint"+
		" RETURNING id) INSERT INTO items (order_id, product, paid)"+
		" SELECT ?::bigint, id, FALSE FROM taken", o.Products, len(o.Products), o.ID))
}

// giveBack undoes reserve.
func (s *Store) giveBack(ctx context.Context, o Order) error {
	_, err := s.exec(ctx, s.db, "WITH locked AS (SELECT id FROM products WHERE "+s.among+
		" ORDER BY id FOR UPDATE), gone AS (DELETE FROM items WHERE order_id = ?::bigint AND NOT"+
		" paid AND product IN (SELECT id FROM locked) RETURNING product)"+
		" UPDATE products SET stock = stock + 1 WHERE id IN (SELECT product FROM gone)",
		o.Products, o.ID)
	return err
}

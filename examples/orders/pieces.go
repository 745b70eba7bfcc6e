package orders

import (
	"context"
	"database/sql"
)

// Pieces has a row for each piece. An order locks a piece of each product that no other order has
// locked (SKIP LOCKED), and so waits for nobody. It holds a transaction and its connection during
// the payment. An order is refused while others hold the last pieces, even if they fail later.
// It needs PostgreSQL.
type Pieces struct {
	Store *Store
	Pay   Pay
}

// Place implements Shop.
func (s Pieces) Place(ctx context.Context, o Order) error {
	return s.Store.inTransaction(ctx, func(tx *sql.Tx) error {
		pieces, err := s.Store.lockPieces(ctx, tx, o.Products)
		if err != nil {
			return err
		}
		if len(pieces) < len(o.Products) {
			return ErrSoldOut
		}
		if err := s.Pay(ctx, o); err != nil {
			return err
		}
		_, err = s.Store.exec(ctx, tx, "WITH taken AS (UPDATE pieces SET order_id = ?::bigint"+
			" WHERE id = ANY (?::bigint[]) RETURNING order_id, product)"+
			" INSERT INTO items (order_id, product) SELECT order_id, product FROM taken",
			o.ID, pieces)
		return err
	})
}

// lockPieces locks a free piece of each product, if there is one.
func (s *Store) lockPieces(ctx context.Context, tx *sql.Tx, products []int) (pieces []int,
	err error,
) {
	found, err := s.ids(ctx, tx, "SELECT piece.id FROM unnest(?::int[]) AS wanted (id), LATERAL"+
		" (SELECT id FROM pieces WHERE product = wanted.id AND order_id IS NULL LIMIT 1"+
		" FOR UPDATE SKIP LOCKED) AS piece", products)
	for id := range found {
		pieces = append(pieces, id)
	}
	return pieces, err
}

// Fill implements Elsewhere: it makes rows for the pieces. The shelves are not endless: the lower
// the number of a product, the more pieces it has, and what has no row stays in products.
func (s Pieces) Fill(ctx context.Context) error {
	for _, statement := range []string{
		"DROP TABLE IF EXISTS pieces",
		"CREATE TABLE pieces (id BIGSERIAL PRIMARY KEY, product INT NOT NULL, order_id BIGINT)",
		"INSERT INTO pieces (product) SELECT p.id FROM products p," +
			" generate_series(1, LEAST(p.stock, 100 + 50000 / (p.id + 1)))",
		"CREATE INDEX ON pieces (product, id) WHERE order_id IS NULL",
		"UPDATE products p SET stock = stock - (SELECT COUNT(*) FROM pieces WHERE product = p.id" +
			" AND order_id IS NULL)",
		"ANALYZE pieces",
	} {
		if _, err := s.Store.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Count implements Elsewhere.
func (s Pieces) Count(ctx context.Context) error {
	_, err := s.Store.db.ExecContext(ctx, "UPDATE products p SET stock = stock +"+
		" (SELECT COUNT(*) FROM pieces WHERE product = p.id AND order_id IS NULL)")
	return err
}

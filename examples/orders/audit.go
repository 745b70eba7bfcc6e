package orders

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Create drops and makes the tables, with products numbered from 0, and pieces of each.
func (s *Store) Create(ctx context.Context, products, pieces int) error {
	for _, statement := range []string{
		"DROP TABLE IF EXISTS items",
		"DROP TABLE IF EXISTS products",
		"CREATE TABLE products (id INT PRIMARY KEY, stock INT NOT NULL, fence BIGINT NOT NULL " +
			"DEFAULT 0, version BIGINT NOT NULL DEFAULT 0)",
		"CREATE TABLE items (order_id BIGINT, product INT, paid BOOLEAN NOT NULL DEFAULT TRUE, " +
			"PRIMARY KEY (order_id, product))",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	const batch = 1000
	for from := 0; from < products; from += batch {
		var rows []string
		for id := from; id < min(from+batch, products); id++ {
			rows = append(rows, fmt.Sprintf("(%d, %d)", id, pieces))
		}
		if _, err := s.db.ExecContext(ctx, "INSERT INTO products (id, stock) VALUES "+
			strings.Join(rows, ", ")); err != nil {
			return err
		}
	}
	if s.postgres { // the planner knows the sizes from the first order on
		_, err := s.db.ExecContext(ctx, "ANALYZE products")
		return err
	}
	return nil
}

// Audit checks the database while no order is in progress. No stock may be below zero. For each
// product, the stock and the sold pieces must make pieces. The database must have as many orders as
// were placed, and all must be paid. Audit returns the first violation.
func (s *Store) Audit(ctx context.Context, pieces, placed int) error {
	var negative, wrong, orders, unpaid int
	for _, check := range []struct {
		into  *int
		query string
		args  []any
	}{
		{&negative, "SELECT COUNT(*) FROM products WHERE stock < 0", nil},
		{&wrong, "SELECT COUNT(*) FROM products p LEFT JOIN (SELECT product, COUNT(*) AS n FROM " +
			"items GROUP BY product) s ON s.product = p.id" +
			" WHERE p.stock + COALESCE(s.n, 0) <> ?", []any{pieces}},
		{&orders, "SELECT COUNT(DISTINCT order_id) FROM items", nil},
		{&unpaid, unpaidOrders, nil},
	} {
		query, args := s.bind(check.query, check.args...)
		if err := s.db.QueryRowContext(ctx, query, args...).Scan(check.into); err != nil {
			return err
		}
	}
	switch {
	case negative > 0:
		return fmt.Errorf("%d products were sold more often than they were there", negative)
	case unpaid > 0:
		return fmt.Errorf("%d orders are not paid", unpaid)
	case wrong > 0:
		return fmt.Errorf("of %d products the stock and what was sold do not make what there was",
			wrong)
	case orders != placed:
		return fmt.Errorf("%d orders are in the database, and %d were placed", orders, placed)
	}
	return nil
}

const unpaidOrders = "SELECT COUNT(DISTINCT order_id) FROM items WHERE NOT paid"

// Oversold returns how many pieces were sold that were never there, and how many orders have pieces
// without being paid.
func (s *Store) Oversold(ctx context.Context, pieces int) (sold, unpaid int, err error) {
	query, args := s.bind("SELECT COALESCE(SUM(n - ?), 0) FROM (SELECT COUNT(*) AS n FROM items"+
		" GROUP BY product) p WHERE n > ?", pieces, pieces)
	err = errors.Join(s.db.QueryRowContext(ctx, query, args...).Scan(&sold),
		s.db.QueryRowContext(ctx, unpaidOrders).Scan(&unpaid))
	return sold, unpaid, err
}

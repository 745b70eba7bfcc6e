package orders

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// longestRetryDelay bounds the random delay before an order looks again.
const longestRetryDelay = 32 * time.Millisecond

// Optimistic locks nothing. It writes if no version of a product has changed since it looked, and
// looks again otherwise. It pays once, before it first writes. If the last piece is sold to another
// order meanwhile, the customer gets the payment back. It needs PostgreSQL.
type Optimistic struct {
	Store  *Store
	Pay    Pay
	Refund Pay // returns the payment
}

// Place implements Shop.
func (s Optimistic) Place(ctx context.Context, o Order) error {
	paid := false
	err := s.try(ctx, o, &paid)
	if err == nil || !paid {
		return err
	}
	if refundErr := s.Refund(context.WithoutCancel(ctx), o); refundErr != nil {
		return errors.Join(err, refundErr)
	}
	return err
}

func (s Optimistic) try(ctx context.Context, o Order, paid *bool) error {
	for delay := time.Millisecond; ; delay = min(2*delay, longestRetryDelay) {
		versions, err := s.Store.versions(ctx, o.Products)
		if err != nil {
			return err
		}
		if len(versions) < len(o.Products) {
			return ErrSoldOut
		}
		if !*paid {
			if err := s.Pay(ctx, o); err != nil {
				return err
			}
			*paid = true
		}
		if done, err := s.Store.sellVersions(ctx, o, versions); done || err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(1 + rand.Int64N(int64(delay)))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// versions returns the versions of the products that are in stock, in the order of products.
func (s *Store) versions(ctx context.Context, products []int) (versions []int, err error) {
	query, args := s.bind("SELECT version FROM products WHERE "+s.among+
		" AND stock >= 1 ORDER BY id", products)
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err reports it
	for rows.Next() {
		var v int
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, rows.Err()
}

// sellVersions sells if all versions are the same as before. The order of the locks is that of
// reserve.
func (s *Store) sellVersions(ctx context.Context, o Order, versions []int) (sold bool, err error) {
	return changed(s.exec(ctx, s.db, "WITH same AS (SELECT p.id FROM products p JOIN"+
		" unnest(?::int[], ?::bigint[]) AS seen (id, version) ON seen.id = p.id"+
		" WHERE p.version = seen.version ORDER BY p.id FOR UPDATE OF p), taken AS (UPDATE products"+
		" SET stock = stock - 1, version = version + 1 WHERE id IN (SELECT id FROM same)"+
		" AND (SELECT COUNT(*) FROM same) = ?::bigint RETURNING id)"+
		" INSERT INTO items (order_id, product) SELECT ?::bigint, id FROM taken",
		o.Products, versions, len(o.Products), o.ID))
}

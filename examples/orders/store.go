package orders

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// Store is the database: the stock of each product, and which order took what. The table has no
// CHECK (stock >= 0) on purpose: it would only tell after the payment, and would hide from Audit
// what the locks are there to prevent.
type Store struct {
	db       *sql.DB
	postgres bool   // else MariaDB or MySQL
	among    string // a condition: a product is one of a list
}

// NewPostgres returns a Store in PostgreSQL, by the driver pgx: a list is one argument.
func NewPostgres(db *sql.DB) *Store { return &Store{db, true, "id = ANY (?)"} }

// NewMariaDB returns a Store in MariaDB or MySQL.
func NewMariaDB(db *sql.DB) *Store { return &Store{db, false, "id IN (?)"} }

// querier is a *sql.DB, which takes a connection for one statement, or a *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// look returns those of the products of which there is a piece.
func (s *Store) look(ctx context.Context, products []int) (there, error) {
	return s.ids(ctx, s.db, "SELECT id FROM products WHERE stock > 0 AND "+s.among, products)
}

// lookAndLock is look, and nobody else can change these rows until the end of the transaction.
func (s *Store) lookAndLock(ctx context.Context, tx *sql.Tx, products []int) (there, error) {
	return s.ids(ctx, tx, "SELECT id FROM products WHERE stock > 0 AND "+s.among+
		" ORDER BY id FOR UPDATE", products)
}

// sell takes the pieces of orders, whose products all differ, from the stock, and writes what each
// took: in the shortest transaction that there is.
func (s *Store) sell(ctx context.Context, group ...Order) error {
	if s.postgres {
		return s.sellWithin(ctx, s.db, group...)
	}
	return s.transact(ctx, func(tx *sql.Tx) error { return s.sellWithin(ctx, tx, group...) })
}

// sellWithin is sell as a part of a transaction. PostgreSQL does it in one statement.
func (s *Store) sellWithin(ctx context.Context, q querier, group ...Order) error {
	take := "UPDATE products SET stock = stock - 1 WHERE " + s.among
	insert, items := s.insert(group)
	if s.postgres {
		_, err := s.exec(ctx, q, "WITH taken AS ("+take+") "+insert, append([]any{all(group)},
			items...)...)
		return err
	}
	if _, err := s.exec(ctx, q, take, all(group)); err != nil {
		return err
	}
	_, err := s.exec(ctx, q, insert, items...)
	return err
}

// insert is the statement that writes what orders took.
func (s *Store) insert(group []Order) (statement string, args []any) {
	const into = "INSERT INTO items (order_id, product) "
	var orders []int
	for _, o := range group {
		for _, p := range o.Products {
			orders, args = append(orders, o.ID), append(args, o.ID, p)
		}
	}
	if s.postgres {
		return into + "SELECT * FROM unnest(?::bigint[], ?::int[])", []any{orders, all(group)}
	}
	return into + "VALUES " + strings.Repeat("(?, ?), ", len(orders)-1) + "(?, ?)", args
}

// all are the products of orders.
func all(group []Order) (products []int) {
	for _, o := range group {
		products = append(products, o.Products...)
	}
	return products
}

// raise gives the products the fence of a lease, or returns ErrLate where one of them has a later
// one.
func (s *Store) raise(ctx context.Context, o Order, fence int64) error {
	return s.update(ctx, s.db, o, "UPDATE products SET fence = ? WHERE fence < ? AND "+s.among,
		fence, fence, o.Products)
}

// sellFenced is sell where the fences are still those that raise has set, and else ErrLate.
func (s *Store) sellFenced(ctx context.Context, o Order, fence int64) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.update(ctx, tx, o, "UPDATE products SET stock = stock - 1 WHERE fence = ? AND "+
			s.among, fence, o.Products); err != nil {
			return err
		}
		insert, items := s.insert([]Order{o})
		_, err := s.exec(ctx, tx, insert, items...)
		return err
	})
}

// update returns ErrLate unless the statement changes all products of the order.
func (s *Store) update(ctx context.Context, q querier, o Order, statement string,
	args ...any,
) error {
	result, err := s.exec(ctx, q, statement, args...)
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	if err == nil && changed < int64(len(o.Products)) {
		err = ErrLate
	}
	return err
}

// transact runs do in a transaction, which is rolled back where do fails.
func (s *Store) transact(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // a connection that can't even do that is given up
		return err
	}
	return tx.Commit()
}

// there are products of which there is a piece.
type there map[int]bool

// serve returns ErrSoldOut where an order can't have its pieces.
func (t there) serve(o Order) error {
	for _, p := range o.Products {
		if !t[p] {
			return ErrSoldOut
		}
	}
	return nil
}

// ids asks for products.
func (s *Store) ids(ctx context.Context, q querier, query string, products []int) (there, error) {
	query, args := s.bind(query, products)
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	found := make(there, len(products))
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		found[id] = true
	}
	return found, rows.Err()
}

func (s *Store) exec(ctx context.Context, q querier, statement string, args ...any) (sql.Result,
	error,
) {
	statement, args = s.bind(statement, args...)
	return q.ExecContext(ctx, statement, args...)
}

// bind numbers the question marks, or gives each of a list its own, as the database wants it.
func (s *Store) bind(statement string, args ...any) (string, []any) {
	var text strings.Builder
	var flat []any
	for i, arg := range args {
		before, rest, _ := strings.Cut(statement, "?")
		statement = rest
		text.WriteString(before)
		list, many := arg.([]int)
		switch {
		case s.postgres:
			text.WriteString("$" + strconv.Itoa(i+1))
		case many:
			text.WriteString(strings.Repeat("?, ", len(list)-1) + "?")
			for _, one := range list {
				flat = append(flat, one)
			}
			continue
		default:
			text.WriteByte('?')
		}
		flat = append(flat, arg)
	}
	return text.String() + statement, flat
}

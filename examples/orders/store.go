package orders

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// Store is the database: the stock of each product, and what each order took. The table has no
// CHECK (stock >= 0) on purpose. It would fail only after the payment, and would hide from Audit
// what the locks prevent.
type Store struct {
	db       *sql.DB
	postgres bool   // else MariaDB or MySQL
	among    string // a condition: a product is one of a list
}

// NewPostgres returns a Store in PostgreSQL. Its driver is pgx, for which a list is one argument.
func NewPostgres(db *sql.DB) *Store { return &Store{db, true, "id = ANY (?)"} }

// NewMariaDB returns a Store in MariaDB or MySQL.
func NewMariaDB(db *sql.DB) *Store { return &Store{db, false, "id IN (?)"} }

// querier is a *sql.DB, which takes a connection for one statement, or a *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// inStock returns the products that are in stock.
func (s *Store) inStock(ctx context.Context, products []int) (available, error) {
	return s.ids(ctx, s.db, "SELECT id FROM products WHERE stock > 0 AND "+s.among, products)
}

// lockInStock is inStock, and locks these rows until the end of the transaction.
func (s *Store) lockInStock(ctx context.Context, tx *sql.Tx, products []int) (available, error) {
	return s.ids(ctx, tx, "SELECT id FROM products WHERE stock > 0 AND "+s.among+
		" ORDER BY id FOR UPDATE", products)
}

// sell takes the pieces of orders from the stock, and records what each took, in the shortest
// possible transaction. The products of the orders must all differ.
func (s *Store) sell(ctx context.Context, group ...Order) error {
	if s.postgres {
		return s.sellWithin(ctx, s.db, group...)
	}
	return s.inTransaction(ctx, func(tx *sql.Tx) error { return s.sellWithin(ctx, tx, group...) })
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

// insert returns the statement that records what orders took.
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

// all returns the products of orders.
func all(group []Order) (products []int) {
	for _, o := range group {
		products = append(products, o.Products...)
	}
	return products
}

// raise gives the products the fence of a lease. It returns ErrLate if one of them has a later
// fence.
func (s *Store) raise(ctx context.Context, o Order, fence int64) error {
	return s.update(ctx, s.db, o, "UPDATE products SET fence = ? WHERE fence < ? AND "+s.among,
		fence, fence, o.Products)
}

// sellFenced is sell if the fences are still those that raise has set. Otherwise it returns
// ErrLate.
func (s *Store) sellFenced(ctx context.Context, o Order, fence int64) error {
	return s.inTransaction(ctx, func(tx *sql.Tx) error {
		if err := s.update(ctx, tx, o, "UPDATE products SET stock = stock - 1 WHERE fence = ? AND "+
			s.among, fence, o.Products); err != nil {
			return err
		}
		insert, items := s.insert([]Order{o})
		_, err := s.exec(ctx, tx, insert, items...)
		return err
	})
}

// changed returns if a statement changed any row.
func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
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

// inTransaction runs do in a transaction, which is rolled back if do fails.
func (s *Store) inTransaction(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // if that fails too, the connection is dropped
		return err
	}
	return tx.Commit()
}

// available is a set of products that are in stock.
type available map[int]bool

// check returns ErrSoldOut if a product of the order is not available.
func (t available) check(o Order) error {
	for _, p := range o.Products {
		if !t[p] {
			return ErrSoldOut
		}
	}
	return nil
}

// ids runs a query that returns the ids of products, or of pieces.
func (s *Store) ids(ctx context.Context, q querier, query string, list []int) (available, error) {
	query, args := s.bind(query, list)
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err reports it
	found := make(available, len(list))
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

// bind writes the placeholders as the database wants them: numbered, or a question mark for each
// element of a list.
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

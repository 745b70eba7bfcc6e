package orders

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/combine"
)

// Combined serves orders that share products together: one lease, one look, all payments at the
// same time, one statement. The stock decides who gets a piece, in the order of arrival. If a
// payment fails, its piece stays in stock, and the other orders are served. Like Fenced it raises
// the fences first, if it is fenced.
type Combined struct {
	store  *Store
	pay    Pay
	orders *combine.Combiner[Order, error]
	// single has a place for each statement of a batch of one order, so that larger batches, which
	// many wait for, always find a connection.
	single chan struct{}
}

// singleStatements is how many statements of batches of one order are under way at most.
const singleStatements = 8

// combinedItems is how many orders one statement serves at most.
const combinedItems = 512

// NewCombined returns a shop. While no order is in progress, it has no goroutines.
func NewCombined(store *Store, locks *lockpipe.Client, pay Pay, fenced bool) *Combined {
	s := &Combined{
		store: store, pay: pay, single: make(chan struct{}, singleStatements),
	}
	options := []lockpipe.Option{lockpipe.WithTTL(leaseTTL)}
	if fenced {
		options = append(options, lockpipe.WithFencing())
	}
	s.orders = combine.New(locks, s.serve, combine.MaxItems(combinedItems),
		combine.LockOptions(options...))
	return s
}

// Place implements Shop.
func (s *Combined) Place(ctx context.Context, o Order) error {
	reply, err := s.orders.Do(ctx, keys(o), o)
	return cmp.Or(reply, err)
}

// serve serves a batch. It returns what becomes of each order.
func (s *Combined) serve(ctx context.Context, lease *lockpipe.Lease, batch []Order) ([]error,
	error,
) {
	var union []int
	pieces := make(map[int]int)
	for _, o := range batch {
		for _, p := range o.Products {
			if pieces[p]++; pieces[p] == 1 {
				union = append(union, p)
			}
		}
	}
	fence := lease.Fence() // 0 unless fenced
	stock, err := s.look(ctx, union, fence, len(batch))
	if err != nil {
		return nil, err
	}
	replies := make([]error, len(batch))
	var paying sync.WaitGroup
	for i, o := range batch {
		if replies[i] = stock.take(o); replies[i] == nil {
			paying.Go(func() { replies[i] = s.pay(ctx, o) })
		}
	}
	paying.Wait()
	var paid []Order
	for i, o := range batch {
		if replies[i] == nil {
			paid = append(paid, o)
		}
	}
	if len(paid) == 0 {
		return replies, nil
	}
	defer s.enter(len(batch))()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := s.store.sellMany(ctx, paid, fence); err != nil {
		s.sellEach(ctx, batch, replies, fence, err)
	}
	return replies, nil
}

// look raises the fences, if there is one, and returns the stock.
func (s *Combined) look(ctx context.Context, products []int, fence int64, orders int) (stock,
	error,
) {
	defer s.enter(orders)()
	if fence != 0 {
		if err := s.store.raiseAll(ctx, products, fence); err != nil {
			return nil, err
		}
	}
	return s.store.stockOf(ctx, products)
}

// enter waits until a batch of so many orders may use the database, and returns what ends that.
func (s *Combined) enter(orders int) (leave func()) {
	if orders > 1 {
		return func() {}
	}
	s.single <- struct{}{}
	return func() { <-s.single }
}

// sellEach sells to each order for itself after the common statement failed, so that an order that
// comes twice does not fail the others.
func (s *Combined) sellEach(ctx context.Context, batch []Order, replies []error, fence int64,
	err error,
) {
	for i, o := range batch {
		switch {
		case replies[i] != nil:
		case len(batch) == 1 || ctx.Err() != nil:
			replies[i] = err
		default:
			replies[i] = s.store.sellMany(ctx, []Order{o}, fence)
		}
	}
}

// stock is how many pieces are left.
type stock map[int]int

// take takes a piece of each product of the order, or none: then it returns ErrSoldOut.
func (t stock) take(o Order) error {
	for _, p := range o.Products {
		if t[p] < 1 {
			return ErrSoldOut
		}
	}
	for _, p := range o.Products {
		t[p]--
	}
	return nil
}

// stockOf returns the stock of products.
func (s *Store) stockOf(ctx context.Context, products []int) (stock, error) {
	query, args := s.bind("SELECT id, stock FROM products WHERE "+s.among, products)
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err reports it
	found := make(stock, len(products))
	for rows.Next() {
		var id, left int
		if err := rows.Scan(&id, &left); err != nil {
			return nil, err
		}
		found[id] = left
	}
	return found, rows.Err()
}

// raiseAll gives products the fence of a lease. It returns ErrLate if one has a later fence. A
// product that does not exist has none.
func (s *Store) raiseAll(ctx context.Context, products []int, fence int64) error {
	if _, err := s.exec(ctx, s.db, "UPDATE products SET fence = ? WHERE fence < ? AND "+s.among,
		fence, fence, products); err != nil {
		return err
	}
	later := fmt.Sprintf("SELECT id FROM products WHERE fence > %d AND ", fence)
	late, err := s.ids(ctx, s.db, later+s.among, products)
	if err == nil && len(late) > 0 {
		err = ErrLate
	}
	return err
}

// sellMany takes the pieces of orders from the stock, which may be several of one product, and
// records what each took. With a fence it returns ErrLate, and has changed nothing, if a product
// has another.
func (s *Store) sellMany(ctx context.Context, group []Order, fence int64) error {
	pieces := make(map[int]int)
	for _, p := range all(group) {
		pieces[p]++
	}
	byPieces := make(map[int][]int) // the products of which so many were sold
	for p, n := range pieces {
		byPieces[n] = append(byPieces[n], p)
	}
	if s.postgres && fence == 0 {
		return s.sellInOne(ctx, pieces, group)
	}
	return s.inTransaction(ctx, func(tx *sql.Tx) error {
		for n, products := range byPieces {
			statement := "UPDATE products SET stock = stock - ? WHERE " + s.among
			args := []any{n, products}
			if fence != 0 {
				statement = "UPDATE products SET stock = stock - ? WHERE fence = ? AND " + s.among
				args = []any{n, fence, products}
			}
			if err := s.update(ctx, tx, Order{Products: products}, statement, args...); err != nil {
				return err
			}
		}
		insert, items := s.insert(group)
		_, err := s.exec(ctx, tx, insert, items...)
		return err
	})
}

// sellInOne is sellMany in one statement of PostgreSQL.
func (s *Store) sellInOne(ctx context.Context, pieces map[int]int, group []Order) error {
	var products, counts []int
	for p, n := range pieces {
		products, counts = append(products, p), append(counts, n)
	}
	insert, items := s.insert(group)
	_, err := s.exec(ctx, s.db, "WITH taken AS (UPDATE products SET stock = stock - n FROM "+
		"unnest(?::int[], ?::int[]) AS sold (product, n) WHERE id = product) "+insert,
		append([]any{products, counts}, items...)...)
	return err
}

package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockpipe/lockpipe/examples/orders"
)

const (
	lot    = 500       // pieces of the product on sale, again when they are sold out
	plenty = 1_000_000 // pieces of every other product
	// history is how many orders stay in the database. Older ones are only counted.
	history = 50_000
)

// ledger counts the pieces of one shop, in the database, by connections of its own: the shop may
// have none left.
type ledger struct{ db *sql.DB }

// count is what has become of the pieces of the product on sale.
type count struct {
	Sold     int `json:"sold"`
	Oversold int `json:"oversold"` // sold, although none was left
	Lots     int `json:"lots"`     // that were put on sale
}

// open makes the tables of a shop.
func (l ledger) open(ctx context.Context, store *orders.Store) error {
	if err := store.Create(ctx, products, plenty); err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE TABLE sale (lots BIGINT, oversold BIGINT, forgotten BIGINT)",
		"INSERT INTO sale VALUES (1, 0, 0)",
	} {
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err := l.db.ExecContext(ctx, "UPDATE products SET stock = $1 WHERE id = 0", lot)
	return err
}

// restock puts the next lot on sale if the last one is sold out. A stock below zero is oversold.
func (l ledger) restock(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, "WITH more AS (UPDATE products SET stock = stock + $1::int"+
		" WHERE id = 0 AND stock <= 0 RETURNING stock - $1::int AS before)"+
		" UPDATE sale SET lots = lots + 1, oversold = oversold - before FROM more", lot)
	return err
}

// count reads one state of the sale.
func (l ledger) count(ctx context.Context) (c count, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT lots * $1 - stock, oversold + GREATEST(-stock, 0), lots"+
		" FROM sale, products WHERE id = 0", lot).Scan(&c.Sold, &c.Oversold, &c.Lots)
	return c, err
}

// forget removes the orders below a number, and remembers how many pieces they had.
func (l ledger) forget(ctx context.Context, below int) error {
	_, err := l.db.ExecContext(ctx, "WITH gone AS (DELETE FROM items WHERE order_id < $1"+
		" RETURNING 1) UPDATE sale SET forgotten = forgotten + (SELECT COUNT(*) FROM gone)", below)
	return err
}

// audit returns an error if the stock and the orders do not make what there was. No order may be
// under way.
func (l ledger) audit(ctx context.Context) error {
	var before, left, sold int
	err := l.db.QueryRowContext(ctx, "SELECT lots * $1 + $2, (SELECT SUM(stock) FROM products),"+
		" forgotten + (SELECT COUNT(*) FROM items) FROM sale", lot, (products-1)*plenty).
		Scan(&before, &left, &sold)
	if err == nil && before != left+sold {
		err = fmt.Errorf("there were %d pieces: %d are left and %d are in orders", before, left, sold)
	}
	return err
}

// Package orders is a small order service, written in several ways (Ways): with locks, versions,
// conditions or rows of pieces in the database, with a stock in Redis, and with redsync's or
// lockpipe's locks outside of the database. Each order takes one piece of several products. Between
// checking the stock and changing it, an order makes a payment, which is outside of the database.
// No other order may get the last piece meanwhile.
package orders

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe"
)

// Order asks for one piece of each of its products.
type Order struct {
	ID int // chosen by the customer: an order that comes twice violates the primary key
	// In ascending order, each once: orders of the same products queue for the same keys, and rows
	// are locked in this order.
	Products []int
}

// NewOrder sorts the products, and drops those that are named twice.
func NewOrder(id int, products ...int) Order {
	sorted := slices.Sorted(slices.Values(products))
	return Order{ID: id, Products: slices.Compact(sorted)}
}

// Pay charges the customer: a slow call of another service. A real one books the payment under the
// order's ID, and returns it if Place fails after that.
type Pay func(ctx context.Context, o Order) error

// Shop is one way to place orders.
type Shop interface {
	// Place returns nil when the order is paid and in the database. It returns ErrSoldOut if a
	// product has run out. It returns ErrLate if a later lease was first, and context.Canceled or
	// the lease's error (lockpipe.ErrExpired, ErrLost) if that came first. Otherwise it returns an
	// error of the database or of the nodes. After an error the stock is as before, unless the
	// answer to a commit was lost, or pieces could not be given back.
	Place(ctx context.Context, o Order) error
}

var (
	// ErrSoldOut means that a product of the order has run out, or does not exist. Nothing was
	// paid, or the customer has the payment back.
	ErrSoldOut = errors.New("sold out")
	// ErrLate means that the database has seen a later fence than the order's: its lease has ended,
	// and another order may have got the same pieces.
	ErrLate = errors.New("too late: a later lease was there first")
)

// leaseTTL is how long the products of a crashed holder stay locked. A payment that may take longer
// needs WithAutoExtend.
const leaseTTL = 5 * time.Second

// keys returns the names of the locks of an order.
func keys(o Order) []string {
	names := make([]string, len(o.Products))
	for i, p := range o.Products {
		names[i] = "sku:" + strconv.Itoa(p)
	}
	return names
}

// because adds how the lease ended to the error of an order: a context that ends says only that it
// is cancelled.
func because(lease *lockpipe.Lease, err *error) {
	if end := lease.Err(); *err != nil && end != nil {
		*err = errors.Join(*err, end)
	}
}

// release releases the locks, also if ctx has ended. If nodes do not answer, lockpipe continues in
// the background. So the customer need not know the error.
func release(ctx context.Context, lease *lockpipe.Lease) {
	_ = lease.Release(context.WithoutCancel(ctx))
}

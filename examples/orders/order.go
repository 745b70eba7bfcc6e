// Package orders is a small order service, written four times: with row locks in the database
// (RowLocks), with lockpipe's locks outside of it (Locked), with these and few statements
// (Grouped), and with fences (Fenced). Each order takes one piece of several products, and has
// something to do outside of the database, a payment, between the look at the stock and the change
// of it. Nobody else may sell the last piece meanwhile.
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
	ID int // chosen by who orders: an order that comes twice violates the primary key
	// In ascending order, each once: who wants the same ones queues for the same keys, and rows are
	// locked in this order.
	Products []int
}

// NewOrder sorts the products, and drops those that are named twice.
func NewOrder(id int, products ...int) Order {
	sorted := slices.Sorted(slices.Values(products))
	return Order{ID: id, Products: slices.Compact(sorted)}
}

// Pay charges the customer: a call of another service, which takes its time. A real one books the
// payment under the order's ID, and gives it back where Place failed after it.
type Pay func(ctx context.Context, o Order) error

// Shop is one way to place orders.
type Shop interface {
	// Place returns nil when the order is paid and in the database. It is ErrSoldOut where a
	// product has run out, and nothing was paid then; ErrLate where a later lease was there first;
	// context.Canceled, or how the lease ended (lockpipe.ErrExpired, ErrLost), where that came
	// first; and else an error of the database or of the masters. All but nil leave the stock as it
	// was, unless it is the answer to a commit that was lost.
	Place(ctx context.Context, o Order) error
}

var (
	// ErrSoldOut means that a product of the order has run out, or does not exist. Nothing was
	// paid.
	ErrSoldOut = errors.New("sold out")
	// ErrLate means that the database has seen a later fence than the order's: its lease is over,
	// and another may have been sold the same pieces.
	ErrLate = errors.New("too late: a later lease was there first")
)

// leaseTime is how long the products of a holder that crashed stay locked. A payment that may take
// longer needs WithAutoExtend.
const leaseTime = 5 * time.Second

// keys are the names of the locks of an order.
func keys(o Order) []string {
	names := make([]string, len(o.Products))
	for i, p := range o.Products {
		names[i] = "sku:" + strconv.Itoa(p)
	}
	return names
}

// release lets go of the locks, also for a caller who has left. Where masters do not answer it goes
// on in the background, and so its error is nothing that a customer has to know.
func release(ctx context.Context, lease *lockpipe.Lease) {
	_ = lease.Release(context.WithoutCancel(ctx))
}

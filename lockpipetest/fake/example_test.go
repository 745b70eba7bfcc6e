package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
)

// Locker is what the shop needs of a *lockpipe.Client. A service declares its own interface, with
// the calls that it makes.
type Locker interface {
	AcquireAll(ctx context.Context, keys []string, opts ...lockpipe.Option) (*lockpipe.Lease, error)
}

// Shop is the service under test.
type Shop struct {
	Locks Locker
	// Store writes the order. It stops when ctx ends.
	Store func(ctx context.Context) error
}

// ErrBusy is for a shopper, who may try again.
var ErrBusy = errors.New("somebody else is buying this product")

// Order locks the products, and stores the order under the lease.
func (s *Shop) Order(ctx context.Context, products ...string) error {
	waitCtx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	lease, err := s.Locks.AcquireAll(waitCtx, products)
	switch {
	case errors.Is(err, lockpipe.ErrHeld):
		return ErrBusy
	case err != nil:
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	return errors.Join(s.Store(lease.Bind(ctx)), lease.Err())
}

// exampleTests are tests of the Shop. In a real project each is a function such as
// TestOrder_IsBusyWhileAnotherHoldsAProduct. It runs in a bubble of testing/synctest, because the
// Shop waits for 20 ms only: a busy machine may need more.
var exampleTests = map[string]func(t *testing.T){
	"busy while another holds a product": func(t *testing.T) {
		locks := fake.NewClient(t)
		shop := &Shop{Locks: locks}
		locks.Hold("sku:42")
		if err := shop.Order(t.Context(), "sku:7", "sku:42"); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	},
	"stops when the lock is lost": func(t *testing.T) {
		locks := fake.NewClient(t)
		shop := &Shop{Locks: locks, Store: func(ctx context.Context) error {
			locks.Lose("sku:42")
			return context.Cause(ctx)
		}}
		if err := shop.Order(t.Context(), "sku:42"); !errors.Is(err, lockpipe.ErrLost) {
			t.Error(err)
		}
	},
	"fails while too few nodes vote": func(t *testing.T) {
		locks := fake.NewClient(t)
		shop := &Shop{Locks: locks}
		locks.StopVotes()
		if err := shop.Order(t.Context(), "sku:42"); !errors.Is(err, lockpipe.ErrNoQuorum) {
			t.Error(err)
		}
	},
	"releases its products": func(t *testing.T) {
		locks := fake.NewClient(t)
		shop := &Shop{Locks: locks, Store: func(context.Context) error { return nil }}
		if err := shop.Order(t.Context(), "sku:42"); err != nil {
			t.Fatal(err)
		}
		if _, err := locks.TryAcquire(t.Context(), "sku:42"); err != nil {
			t.Error(err)
		}
	},
}

// A service that takes an interface is tested with a Client of this package: what it does when a
// lock is held, lost or not to be had.
func Example() {
	for name, test := range exampleTests {
		_, _ = name, test // go test runs them
	}
}

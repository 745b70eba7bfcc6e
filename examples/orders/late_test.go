package orders

import (
	"context"
	"sync"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// late are the ways that race here.
var late = map[string]func(*Store, *lockpipe.Client, Pay) Shop{
	"lockpipe": func(s *Store, c *lockpipe.Client, pay Pay) Shop { return Locked{s, c, pay} },
	"fenced":   func(s *Store, c *lockpipe.Client, pay Pay) Shop { return Fenced{s, c, pay} },
	"grouped":  func(s *Store, c *lockpipe.Client, pay Pay) Shop { return NewGrouped(s, c, pay) },
}

// raceLate places two orders for the last piece of a product. While the first one pays, the nodes
// lose its lock, and another process places the second order. The first one continues when the
// second has ended, or while the second one pays.
func (s *shop) raceLate(way string, whilePaying bool) (first, second error) {
	s.Helper()
	require.NoError(s, s.store.Create(s.Context(), 2, 1))
	proceed, ended, placed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	letProceed := sync.OnceFunc(func() { close(proceed) })
	other := late[way](s.store, s.client(), func(context.Context, Order) error {
		if whilePaying {
			letProceed()
			<-ended
		}
		return nil
	})
	one := late[way](s.store, s.client(), func(context.Context, Order) error {
		for i := range s.nodes.Len() {
			if _, err := s.nodes.Do(i, "DEL", "sku:0", "sku:1"); err != nil {
				return err
			}
		}
		go func() {
			placed <- other.Place(s.Context(), NewOrder(2, 0))
			letProceed()
		}()
		<-proceed
		return nil
	})
	first = one.Place(s.Context(), NewOrder(1, 0, 1))
	close(ended)
	return first, <-placed
}

// The goal: with fences the database refuses the writes of an earlier lease at any time, and the
// later order is placed.
func TestFenced_LateWriterIsRefused(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, whilePaying := range []bool{false, true} {
			first, second := s.raceLate("fenced", whilePaying)
			require.Equal(s, ErrLate, first)
			require.NoError(s, second)
			require.NoError(s, s.store.Audit(s.Context(), 1, 1))
		}
	})
}

// The goal: the database accepts a fence only if it is above the last one. A write with a lower
// fence changes nothing, not even in part.
func TestFenced_LowerFenceChangesNothing(t *testing.T) {
	onEach(t, func(s *shop) {
		require.NoError(s, s.store.Create(s.Context(), 3, 5))
		o := NewOrder(1, 0, 1)
		require.NoError(s, s.store.raise(s.Context(), o, 7))
		require.Equal(s, ErrLate, s.store.raise(s.Context(), o, 6))
		require.Equal(s, ErrLate, s.store.raise(s.Context(), o, 7))
		require.Equal(s, ErrLate, s.store.sellFenced(s.Context(), o, 6))
		require.NoError(s, s.store.raise(s.Context(), NewOrder(2, 1, 2), 8))
		require.Equal(s, ErrLate, s.store.sellFenced(s.Context(), o, 7))
		require.NoError(s, s.store.Audit(s.Context(), 5, 0))
		require.NoError(s, s.store.sellFenced(s.Context(), NewOrder(2, 1, 2), 8))
		require.NoError(s, s.store.Audit(s.Context(), 5, 1))
	})
}

// The goal: a late writer does harm without fences, and Audit finds it: the last piece is sold
// twice.
func TestAudit_FindsALateWriter(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, way := range []string{"lockpipe", "grouped"} {
			first, second := s.raceLate(way, true)
			require.NoError(s, first)
			require.NoError(s, second)
			require.EqualError(s, s.store.Audit(s.Context(), 1, 2),
				"1 products were sold more often than they were there")
		}
	})
}

// The goal: a group sells no product to two orders, of which one has lost its lock, and nothing to
// an order whose lease has ended.
func TestGrouped_SellsEachProductOnce(t *testing.T) {
	onEach(t, func(s *shop) {
		require.NoError(s, s.store.Create(s.Context(), 4, 5))
		over, end := context.WithCancel(s.Context())
		end()
		group := []*queuedOrder{
			{order: NewOrder(1, 0, 1), leaseCtx: s.Context()},
			{order: NewOrder(2, 1, 2), leaseCtx: s.Context()},
			{order: NewOrder(3, 3), leaseCtx: over},
			{order: NewOrder(4, 2), leaseCtx: s.Context()},
		}
		replies := make([]error, len(group))
		s.store.sellGroup(s.Context(), group, replies)
		require.Equal(s, []error{nil, ErrLate, context.Canceled, nil}, replies)
		require.NoError(s, s.store.Audit(s.Context(), 5, 2))
	})
}

// The goal: Audit finds orders that are not in the database, and missing stock that no order took.
func TestAudit_FindsMissingOrdersAndStock(t *testing.T) {
	onEach(t, func(s *shop) {
		require.NoError(s, s.store.Create(s.Context(), 2, 5))
		require.NoError(s, s.store.sell(s.Context(), NewOrder(1, 0, 1)))
		require.EqualError(s, s.store.Audit(s.Context(), 5, 2),
			"1 orders are in the database, and 2 were placed")
		_, err := s.store.db.ExecContext(s.Context(), "UPDATE products SET stock = 3 WHERE id = 1")
		require.NoError(s, err)
		require.EqualError(s, s.store.Audit(s.Context(), 5, 1),
			"of 1 products the stock and what was sold do not make what there was")
	})
}

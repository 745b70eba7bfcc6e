package orders

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// late has two orders for the last piece of a product. The first one's lock is forgotten by the
// masters while it pays, and another process places the second. The first one goes on when all that
// is over, or while the second one pays.
func (s *shop) late(way string, whilePaying bool) (first, second error) {
	s.Helper()
	require.NoError(s, s.store.Create(s.Context(), 2, 1))
	may, ended, placed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	goOn := sync.OnceFunc(func() { close(may) })
	other := ways[way](s.store, s.client(), func(context.Context, Order) error {
		if whilePaying {
			goOn()
			<-ended
		}
		return nil
	})
	one := ways[way](s.store, s.client(), func(context.Context, Order) error {
		for i := range s.nodes.Len() {
			if _, err := s.nodes.Do(i, "DEL", "sku:0", "sku:1"); err != nil {
				return err
			}
		}
		go func() {
			placed <- other.Place(s.Context(), NewOrder(2, 0))
			goOn()
		}()
		<-may
		return nil
	})
	first = one.Place(s.Context(), NewOrder(1, 0, 1))
	close(ended)
	return first, <-placed
}

// The goal: with fences the database refuses what an earlier lease still sends, whenever it comes,
// and the later order is not harmed.
func TestAWriterThatIsLateIsRefused(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, whilePaying := range []bool{false, true} {
			first, second := s.late("fenced", whilePaying)
			require.Equal(s, ErrLate, first)
			require.NoError(s, second)
			require.NoError(s, s.store.Audit(s.Context(), 1, 1))
		}
	})
}

// The goal: the database takes a fence only if it is above the last one, and what belongs to a
// lower one not even in part.
func TestALowerFenceIsRefusedAsAWhole(t *testing.T) {
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

// The goal: being late is a real danger, and Audit finds what comes of it: without fences the last
// piece is sold twice.
func TestWithoutFencesALateWriterSellsTwice(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, way := range []string{"lockpipe", "grouped"} {
			first, second := s.late(way, true)
			require.NoError(s, first)
			require.NoError(s, second)
			require.EqualError(s, s.store.Audit(s.Context(), 1, 2),
				"1 products were sold more often than they were there")
		}
	})
}

// The goal: a group sells no product to two orders, of which one holds no lock any more, and
// nothing to one whose lease is over.
func TestAGroupHasEachProductOnce(t *testing.T) {
	onEach(t, func(s *shop) {
		require.NoError(s, s.store.Create(s.Context(), 4, 5))
		over, end := context.WithCancel(s.Context())
		end()
		group := []*visit{
			{order: NewOrder(1, 0, 1), held: s.Context()},
			{order: NewOrder(2, 1, 2), held: s.Context()},
			{order: NewOrder(3, 3), held: over},
			{order: NewOrder(4, 2), held: s.Context()},
		}
		replies := make([]error, len(group))
		s.store.sellTo(s.Context(), group, replies)
		require.Equal(s, []error{nil, ErrLate, context.Canceled, nil}, replies)
		require.NoError(s, s.store.Audit(s.Context(), 5, 2))
	})
}

// The goal: Audit tells of orders that are not in the database, and of stock that nobody bought.
func TestAuditFindsWhatIsMissing(t *testing.T) {
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

package orders

import (
	"context"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: while a customer pays, nobody else gets the last piece. If no payment comes in time,
// the piece is free, and a payment that comes too late is returned.
func TestReserved_APaymentThatComesTooLateIsReturned(t *testing.T) {
	server, err := started[database.Postgres]()
	database.Require(t, err)
	s := &shop{t, NewPostgres(server.DB), lockpipetest.StartT(t, 3)}
	require.NoError(t, s.store.Create(t.Context(), 1, 1))
	var soldOut, returned int
	var rival Shop
	slow := func(ctx context.Context, _ Order) error {
		require.Equal(t, ErrSoldOut, rival.Place(ctx, NewOrder(2, 0)))
		soldOut++
		kept := 0
		for i := range s.nodes.Len() {
			keys, err := s.nodes.Keys(i, pieceKey)
			require.NoError(t, err)
			for _, key := range keys {
				left, err := s.nodes.Do(i, "PTTL", key)
				require.NoError(t, err)
				if left.(int64) > (reservedFor - time.Minute).Milliseconds() {
					kept++ // by a quorum at least; the third node may be late
				}
				_, err = s.nodes.Do(i, "PEXPIRE", key, "0") // the time is over
				require.NoError(t, err)
			}
		}
		require.GreaterOrEqual(t, kept, 2)
		return rival.Place(ctx, NewOrder(3, 0))
	}
	refund := func(context.Context, Order) error { returned++; return nil }
	connect := func(pay Pay) Shop {
		b, err := Connect(s.store, s.nodes.URLs(), "", pay, refund)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
		require.NoError(t, b.Locks.Ready(t.Context()))
		return Reserved{Pieces{s.store, b.Pay}, b.Locks, b.Payments, b.Refund}
	}
	rival = connect(free)
	late := connect(slow)
	require.NoError(t, late.(Reserved).Fill(t.Context()))
	require.ErrorIs(t, late.Place(t.Context(), NewOrder(1, 0)), lockpipe.ErrExpired)
	require.Equal(t, []int{1, 1}, []int{soldOut, returned})
	s.audit(t, late, 1, 1)
}

// The goal: an order whose reservation was lost sells nothing, also if another order has the same
// piece only in the database.
func TestReserved_TheDatabaseHasTheLastWord(t *testing.T) {
	server, err := started[database.Postgres]()
	database.Require(t, err)
	s := &shop{t, NewPostgres(server.DB), lockpipetest.StartT(t, 3)}
	require.NoError(t, s.store.Create(t.Context(), 2, 1))
	returned := 0
	b, err := Connect(s.store, s.nodes.URLs(), "", func(ctx context.Context, _ Order) error {
		for _, statement := range []string{
			"UPDATE pieces SET order_id = 7 WHERE product = 1", // and not the other product
			"INSERT INTO items (order_id, product) VALUES (7, 1)",
		} {
			_, err := s.store.db.ExecContext(ctx, statement)
			require.NoError(t, err)
		}
		return nil
	}, func(context.Context, Order) error { returned++; return nil })
	require.NoError(t, err)
	defer b.Close(context.Background())
	shop := Reserved{Pieces{s.store, b.Pay}, b.Locks, b.Payments, b.Refund}
	require.NoError(t, shop.Fill(t.Context()))
	require.Equal(t, ErrSoldOut, shop.Place(t.Context(), NewOrder(1, 0, 1)))
	require.Equal(t, 1, returned)
	s.audit(t, shop, 1, 1)
}

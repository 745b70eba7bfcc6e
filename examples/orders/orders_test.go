package orders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// started has the databases of all tests. Each is started when a test first needs it.
var started = map[*database.Kind]func() (*database.Server, error){
	database.Postgres: sync.OnceValues(database.Postgres.Start),
	database.MariaDB:  sync.OnceValues(database.MariaDB.Start),
}

func TestMain(m *testing.M) {
	var open []io.Closer
	for kind, start := range started {
		started[kind] = func() (*database.Server, error) {
			server, err := start()
			if err == nil {
				open = append(open, server)
			}
			return server, err
		}
	}
	code := m.Run()
	for _, server := range open {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// shop is a test with its database and nodes.
type shop struct {
	*testing.T
	store *Store
	nodes *lockpipetest.Nodes
}

// client returns a lockpipe client, which represents another process.
func (s *shop) client() *lockpipe.Client {
	s.Helper()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes:  s.nodes.URLs(),
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { assert.NoError(s, client.Close(context.Background())) })
	return client
}

// onEach runs test on each database that is installed.
func onEach(t *testing.T, test func(s *shop)) {
	for kind, open := range map[*database.Kind]func(*database.Server) *Store{
		database.Postgres: func(s *database.Server) *Store { return NewPostgres(s.DB) },
		database.MariaDB:  func(s *database.Server) *Store { return NewMariaDB(s.DB) },
	} {
		t.Run(kind.Name, func(t *testing.T) {
			server, err := started[kind]()
			database.Require(t, err)
			test(&shop{t, open(server), lockpipetest.StartT(t, 5)})
		})
	}
}

// onEachWay runs test for each way on each database. A new shop has its stock where it keeps it.
// redsync is slow with a hot product, so one database is enough for it.
func onEachWay(t *testing.T, products, pieces int,
	test func(t *testing.T, s *shop, open func(pay, refund Pay) Shop),
) {
	onEach(t, func(s *shop) {
		for _, way := range Ways() {
			if (way.Postgres || way.Name == "redsync") && !s.store.postgres {
				continue
			}
			s.Run(way.Name, func(t *testing.T) {
				require.NoError(t, s.store.Create(t.Context(), products, pieces))
				test(t, s, func(pay, refund Pay) Shop {
					b, err := Connect(s.store, s.nodes.URLs(), "", pay, refund)
					require.NoError(t, err)
					t.Cleanup(func() { assert.NoError(t, b.Close(context.Background())) })
					b.RetryDelay = time.Millisecond
					shop := way.Open(b)
					if e, ok := shop.(Elsewhere); ok {
						require.NoError(t, e.Fill(t.Context()))
					}
					return shop
				})
			})
		}
	})
}

// audit is Audit, after a shop that keeps the stock elsewhere has written it back.
func (s *shop) audit(t *testing.T, way Shop, pieces, placed int) {
	t.Helper()
	if e, ok := way.(Elsewhere); ok {
		require.NoError(t, e.Count(t.Context()))
	}
	require.NoError(t, s.store.Audit(t.Context(), pieces, placed))
}

func free(context.Context, Order) error { return nil }

// place places orders by 16 callers at once, and counts those that were placed and those that were
// sold out.
func (s *shop) place(way Shop, count int, products func(i int) []int) (placed, soldOut int) {
	s.Helper()
	var mu sync.Mutex
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for i := caller; i < count; i += 16 {
				err := way.Place(s.Context(), NewOrder(i, products(i)...))
				mu.Lock()
				switch err {
				case nil:
					placed++
				case ErrSoldOut:
					soldOut++
				default:
					s.Errorf("order %d: %v", i, err)
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return placed, soldOut
}

// The goal: when many callers place orders with overlapping products, the stock is exact
// afterwards, for each shop.
func TestShops_StockIsExact(t *testing.T) {
	onEachWay(t, 8, 1000, func(t *testing.T, s *shop, open func(pay, refund Pay) Shop) {
		way := open(free, free)
		placed, _ := s.place(way, 100,
			func(i int) []int { return []int{i % 8, (i + i/8 + 1) % 8, 0} })
		require.Equal(t, 100, placed)
		s.audit(t, way, 1000, placed)
	})
}

// The goal: all pieces are sold, and not more. An order that is refused has not paid, or has its
// payment back.
func TestShops_SoldOutIsRefused(t *testing.T) {
	onEachWay(t, 3, 20, func(t *testing.T, s *shop, open func(pay, refund Pay) Shop) {
		var paid atomic.Int64
		pay := func(context.Context, Order) error { paid.Add(1); return nil }
		refund := func(context.Context, Order) error { paid.Add(-1); return nil }
		way := open(pay, refund)
		placed, soldOut := s.place(way, 100, func(int) []int { return []int{2, 0, 1} })
		require.Equal(t, []int{20, 80, 20}, []int{placed, soldOut, int(paid.Load())})
		s.audit(t, way, 20, placed)
	})
}

// The goal: a product that does not exist can't be sold, and an order that comes twice is placed
// once.
func TestShops_UnknownProductsAndRepeatedOrdersAreRefused(t *testing.T) {
	onEachWay(t, 3, 20, func(t *testing.T, s *shop, open func(pay, refund Pay) Shop) {
		way := open(free, free)
		require.Equal(t, ErrSoldOut, way.Place(t.Context(), NewOrder(1, 1, 77)))
		require.NoError(t, way.Place(t.Context(), NewOrder(1, 1, 2, 1)))
		require.Error(t, way.Place(t.Context(), NewOrder(1, 2)))
		require.NoError(t, way.Place(t.Context(), NewOrder(2, 1, 2, 1)))
		s.audit(t, way, 20, 2)
	})
}

// The goal: if the payment fails, the stock is as before.
func TestShops_FailedPaymentTakesNothing(t *testing.T) {
	onEachWay(t, 3, 20, func(t *testing.T, s *shop, open func(pay, refund Pay) Shop) {
		refused := errors.New("card refused")
		way := open(func(context.Context, Order) error { return refused }, free)
		require.ErrorIs(t, way.Place(t.Context(), NewOrder(1, 0, 2)), refused)
		s.audit(t, way, 20, 0)
	})
}

package orders

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

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

// The ways to place orders.
var ways = map[string]func(*Store, *lockpipe.Client, Pay) Shop{
	"row locks": func(s *Store, _ *lockpipe.Client, pay Pay) Shop { return RowLocks{s, pay} },
	"lockpipe":  func(s *Store, c *lockpipe.Client, pay Pay) Shop { return Locked{s, c, pay} },
	"fenced":    func(s *Store, c *lockpipe.Client, pay Pay) Shop { return Fenced{s, c, pay} },
	"grouped":   func(s *Store, c *lockpipe.Client, pay Pay) Shop { return NewGrouped(s, c, pay) },
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
	onEach(t, func(s *shop) {
		for name, way := range ways {
			s.Run(name, func(t *testing.T) {
				require.NoError(t, s.store.Create(t.Context(), 8, 1000))
				placed, _ := s.place(way(s.store, s.client(), free), 200,
					func(i int) []int { return []int{i % 8, (i + i/8 + 1) % 8, 0} })
				require.Equal(t, 200, placed)
				require.NoError(t, s.store.Audit(t.Context(), 1000, placed))
			})
		}
	})
}

// The goal: all pieces are sold, and not more. An order that is refused has not paid.
func TestShops_SoldOutIsRefused(t *testing.T) {
	onEach(t, func(s *shop) {
		for name, way := range ways {
			s.Run(name, func(t *testing.T) {
				require.NoError(t, s.store.Create(t.Context(), 3, 20))
				payments := make(chan int, 200)
				pay := func(_ context.Context, o Order) error { payments <- o.ID; return nil }
				placed, soldOut := s.place(way(s.store, s.client(), pay), 200,
					func(int) []int { return []int{2, 0, 1} })
				require.Equal(t, []int{20, 180, 20}, []int{placed, soldOut, len(payments)})
				require.NoError(t, s.store.Audit(t.Context(), 20, placed))
			})
		}
	})
}

// The goal: a product that does not exist can't be sold, and an order that comes twice is placed
// once.
func TestShops_UnknownProductsAndRepeatedOrdersAreRefused(t *testing.T) {
	onEach(t, func(s *shop) {
		for name, way := range ways {
			s.Run(name, func(t *testing.T) {
				require.NoError(t, s.store.Create(t.Context(), 3, 20))
				shop := way(s.store, s.client(), free)
				require.Equal(t, ErrSoldOut, shop.Place(t.Context(), NewOrder(1, 1, 77)))
				require.NoError(t, shop.Place(t.Context(), NewOrder(1, 1, 2, 1)))
				require.Error(t, shop.Place(t.Context(), NewOrder(1, 2)))
				require.NoError(t, shop.Place(t.Context(), NewOrder(2, 1, 2, 1)))
				require.NoError(t, s.store.Audit(t.Context(), 20, 2))
			})
		}
	})
}

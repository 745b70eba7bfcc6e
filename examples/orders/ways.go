package orders

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/lockpipe/lockpipe"
	"github.com/redis/go-redis/v9"
)

// Backends are what the ways to place orders are made of.
type Backends struct {
	Store       *Store
	Locks       *lockpipe.Client
	Payments    *lockpipe.Client // stands for another process: see Reserved
	Redis       []*redis.Client  // a client for each node; the first one also counts RedisStock
	Pay, Refund Pay
	RetryDelay  time.Duration // of Redsynced; zero is redsync's own
}

// Connect returns backends of a database and nodes. prefix is before each key of lockpipe. The
// caller ends them with Close.
func Connect(store *Store, nodes []string, prefix string, pay, refund Pay) (*Backends, error) {
	b := &Backends{Store: store, Pay: pay, Refund: refund}
	for _, url := range nodes {
		options, err := redis.ParseURL(url)
		if err != nil {
			b.closeRedis()
			return nil, err
		}
		b.Redis = append(b.Redis, redis.NewClient(options))
	}
	for _, client := range []**lockpipe.Client{&b.Locks, &b.Payments} {
		var err error
		*client, err = lockpipe.New(lockpipe.Config{
			Nodes:  nodes,
			Prefix: prefix,
			TTL:    leaseTTL,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.closeRedis()
			return nil, err
		}
	}
	return b, nil
}

// Close closes the clients. The database stays open.
func (b *Backends) Close(ctx context.Context) error {
	b.closeRedis()
	return errors.Join(b.Locks.Close(ctx), b.Payments.Close(ctx))
}

func (b *Backends) closeRedis() {
	for _, client := range b.Redis {
		_ = client.Close() // nothing is under way
	}
}

// Way is a way to place orders.
type Way struct {
	Name     string
	Postgres bool // it needs PostgreSQL
	Open     func(b *Backends) Shop
}

// Elsewhere is a Shop that keeps the stock elsewhere than in the table of the products. Fill moves
// it there before the first order. Count writes back what is left, for Audit.
type Elsewhere interface {
	Fill(ctx context.Context) error
	Count(ctx context.Context) error
}

// Ways returns all ways. The first one is what the others are compared with.
func Ways() []Way {
	return []Way{
		{"row locks", false, func(b *Backends) Shop { return RowLocks{b.Store, b.Pay} }},
		{"advisory locks", true, func(b *Backends) Shop { return Advisory{b.Store, b.Pay} }},
		{"optimistic", true, func(b *Backends) Shop {
			return Optimistic{b.Store, b.Pay, b.Refund}
		}},
		{"conditional update", true, func(b *Backends) Shop { return Conditional{b.Store, b.Pay} }},
		{"row per piece", true, func(b *Backends) Shop { return Pieces{b.Store, b.Pay} }},
		{"redis stock", true, func(b *Backends) Shop {
			return RedisStock{b.Store, b.Redis[0], b.Pay}
		}},
		{"redsync", false, func(b *Backends) Shop {
			var pools []redsyncredis.Pool
			for _, client := range b.Redis {
				pools = append(pools, goredis.NewPool(client))
			}
			return Redsynced{b.Store, redsync.New(pools...), b.Pay, b.RetryDelay}
		}},
		{"lockpipe", false, func(b *Backends) Shop { return Locked{b.Store, b.Locks, b.Pay} }},
		{"lockpipe, grouped", false, func(b *Backends) Shop {
			return NewGrouped(b.Store, b.Locks, b.Pay)
		}},
		{"lockpipe, fenced", false, func(b *Backends) Shop {
			return Fenced{b.Store, b.Locks, b.Pay}
		}},
		{"lockpipe, combined", false, func(b *Backends) Shop {
			return NewCombined(b.Store, b.Locks, b.Pay, false)
		}},
		{"lockpipe, combined and fenced", false, func(b *Backends) Shop {
			return NewCombined(b.Store, b.Locks, b.Pay, true)
		}},
		{"lockpipe, reserved", true, func(b *Backends) Shop {
			return Reserved{Pieces{b.Store, b.Pay}, b.Locks, b.Payments, b.Refund}
		}},
	}
}

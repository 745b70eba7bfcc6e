package orders

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// The hashes in Redis: pieces by product, and the orders in progress.
const (
	stockKey    = "shop:stock"
	reservedKey = "shop:reserved"
)

// takeScript takes a piece of each product for an order, all or none. It returns 1, or 0 if one has
// run out, or -1 if the order is already in progress.
var takeScript = redis.NewScript(`
for i = 2, #ARGV do
  if tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or '0') < 1 then return 0 end; -- sold out
end
if redis.call('HSETNX', KEYS[2], ARGV[1], table.concat(ARGV, ',', 2)) == 0 then return -1 end
for i = 2, #ARGV do redis.call('HINCRBY', KEYS[1], ARGV[i], -1) end
return 1`)

// putBackScript undoes takeScript, if it is not undone already.
var putBackScript = redis.NewScript(`
if redis.call('HDEL', KEYS[2], ARGV[1]) == 1 then
  for i = 2, #ARGV do redis.call('HINCRBY', KEYS[1], ARGV[i], 1) end -- a piece
end
return 1`)

// RedisStock counts the stock in one Redis server, with a script. The database has the ledger: what
// each order took. It takes the pieces, pays, and writes the ledger. If the process dies in
// between, the pieces stay taken, and the reserved orders say by whom. If Redis loses its memory,
// the stock has to be counted again from the ledger, which knows nothing of the orders in progress:
// these pieces are sold twice. It needs PostgreSQL.
type RedisStock struct {
	Store *Store
	Redis *redis.Client
	Pay   Pay
}

// errInProgress means that the same order is in progress.
var errInProgress = errors.New("an order with this number is in progress")

// Place implements Shop.
func (s RedisStock) Place(ctx context.Context, o Order) error {
	answer, err := takeScript.Run(ctx, s.Redis, []string{stockKey, reservedKey},
		arguments(o)...).Int()
	switch {
	case err != nil:
		return err
	case answer == 0:
		return ErrSoldOut
	case answer < 0:
		return errInProgress
	}
	lasting := context.WithoutCancel(ctx)
	if err := s.Pay(ctx, o); err != nil {
		return errors.Join(err, s.putBack(lasting, o))
	}
	insert, items := s.Store.insert([]Order{o})
	_, err = s.Store.exec(lasting, s.Store.db, insert, items...)
	if refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) { // certainly not written
		return errors.Join(err, s.putBack(lasting, o))
	}
	if err != nil {
		return err // perhaps written: the order stays reserved until somebody looks
	}
	_ = s.Redis.HDel(lasting, reservedKey, strconv.Itoa(o.ID)).Err() // the ledger knows the order
	return nil
}

func (s RedisStock) putBack(ctx context.Context, o Order) error {
	return putBackScript.Run(ctx, s.Redis, []string{stockKey, reservedKey}, arguments(o)...).Err()
}

// arguments returns what the scripts get.
func arguments(o Order) []any {
	all := []any{o.ID}
	for _, p := range o.Products {
		all = append(all, p)
	}
	return all
}

// Reserved returns how many orders have taken pieces and are not in the ledger.
func (s RedisStock) Reserved(ctx context.Context) (int, error) {
	n, err := s.Redis.HLen(ctx, reservedKey).Result()
	return int(n), err
}

// Fill implements Elsewhere: it counts the stock from the ledger, also after a loss. It does not
// know the pieces of orders in progress.
func (s RedisStock) Fill(ctx context.Context) error {
	rows, err := s.Store.db.QueryContext(ctx, "SELECT id, stock - (SELECT COUNT(*) FROM items"+
		" WHERE product = id) FROM products")
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err reports it
	all := s.Redis.TxPipeline()
	all.Del(ctx, stockKey, reservedKey)
	for rows.Next() {
		var id, stock int
		if err := rows.Scan(&id, &stock); err != nil {
			return err
		}
		all.HSet(ctx, stockKey, id, stock)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = all.Exec(ctx)
	return err
}

// Count implements Elsewhere. It returns an error if an order is still reserved.
func (s RedisStock) Count(ctx context.Context) error {
	if n, err := s.Reserved(ctx); err != nil {
		return err
	} else if n > 0 {
		return fmt.Errorf("%d orders are still reserved", n)
	}
	left, err := s.Redis.HGetAll(ctx, stockKey).Result()
	if err != nil {
		return err
	}
	var ids, stock []int
	for product, n := range left {
		id, err := strconv.Atoi(product)
		if err != nil {
			return err
		}
		pieces, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		ids, stock = append(ids, id), append(stock, pieces)
	}
	_, err = s.Store.exec(ctx, s.Store.db, "UPDATE products p SET stock = rest.pieces FROM"+
		" unnest(?::int[], ?::int[]) AS rest (id, pieces) WHERE rest.id = p.id", ids, stock)
	return err
}

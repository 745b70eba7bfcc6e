package main

import (
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func openRedsyncGoredis(n *nodes) (Contender, error) {
	clients := make([]*redis.Client, 0, len(n.urls))
	closePools := func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	pools := make([]redsyncredis.Pool, 0, len(n.urls))
	for _, url := range n.urls {
		c, err := goredisClient(n, url)
		if err != nil {
			closePools()
			return nil, err
		}
		clients = append(clients, c)
		pools = append(pools, pool.NewPool(c))
	}
	return newRedsync("redsync-goredis", pools, closePools), nil
}

// goredisClient opens go-redis with its own pool size, ten connections per CPU.
func goredisClient(n *nodes, url string) (*redis.Client, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	// Without this go-redis does not look at a context's deadline, and redsync's timeout per node
	// has no effect.
	opt.ContextTimeoutEnabled = true
	// Only hosted services know the command; plain servers refuse it once per connection.
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if n.delays != nil {
		opt.Dialer = n.dial
	}
	return redis.NewClient(opt), nil
}

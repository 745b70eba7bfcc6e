package main

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

func openRedsyncRueidis(n *nodes) (Contender, error) {
	return newRedsyncRueidis(baseline, n)
}

// openRedsyncFailFast is redsync with its own option for speed. It is not in the default list: it
// returns while commands are still under way, so a late SET can land behind its own release and
// stay for the whole TTL.
func openRedsyncFailFast(n *nodes) (Contender, error) {
	c, err := newRedsyncRueidis("redsync-rueidis-failfast", n)
	if err != nil {
		return nil, err
	}
	c.options = append(c.options, redsync.WithFailFast(true))
	return c, nil
}

// openRedsyncParallel takes many keys with a goroutine per key. With one key it is the same as
// redsync-rueidis.
func openRedsyncParallel(n *nodes) (Contender, error) {
	c, err := newRedsyncRueidis("redsync-rueidis-parallel", n)
	if err != nil {
		return nil, err
	}
	c.parallel = true
	return c, nil
}

func newRedsyncRueidis(name string, n *nodes) (*redsyncContender, error) {
	clients, err := rueidisClients(n)
	if err != nil {
		return nil, err
	}
	pools := make([]redsyncredis.Pool, len(clients))
	for i, c := range clients {
		pools[i] = pool.NewPool(rueidiscompat.NewAdapter(c))
	}
	return newRedsync(name, pools, func() { closeClients(clients) }), nil
}

// rueidisClients opens a client per node with rueidis' own defaults, which pipeline the commands of
// concurrent callers by themselves. Only what a lock has no use for is switched off: client-side
// caching and the probe for a cluster.
func rueidisClients(n *nodes) ([]rueidis.Client, error) {
	clients := make([]rueidis.Client, 0, len(n.urls))
	for _, url := range n.urls {
		opt, err := rueidis.ParseURL(url)
		if err != nil {
			closeClients(clients)
			return nil, err
		}
		opt.DisableCache = true
		opt.ForceSingleClient = true
		if n.delays != nil {
			opt.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer,
				_ *tls.Config,
			) (net.Conn, error) {
				return n.dial(ctx, "tcp", address)
			}
		}
		c, err := rueidis.NewClient(opt)
		if err != nil {
			if c != nil {
				c.Close()
			}
			closeClients(clients)
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func closeClients(clients []rueidis.Client) {
	for _, c := range clients {
		c.Close()
	}
}

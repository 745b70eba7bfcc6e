package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// pipelineContender is a yardstick, not a library: what the bare commands of Redlock cost when one
// caller sends its keys to every node in one pipeline. One goroutine per node, SET NX PX per key,
// EVALSHA per key, a vote per key. It cleans nothing up after a failure, checks no validity and
// waits for every node.
type pipelineContender struct {
	clients []rueidis.Client
	sha     string
}

const releaseScript = `if redis.call("GET",KEYS[1])==ARGV[1] then return redis.call("DEL",KEYS[1]) end return 0`

var ttlMillis = strconv.FormatInt(int64(ttl/time.Millisecond), 10)

func openPipeline(n *nodes) (Contender, error) {
	clients, err := rueidisClients(n)
	if err != nil {
		return nil, err
	}
	p := &pipelineContender{clients: clients}
	for _, c := range clients {
		load := c.B().ScriptLoad().Script(releaseScript).Build()
		if p.sha, err = c.Do(context.Background(), load).ToString(); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

func (c *pipelineContender) Name() string { return "pipeline" }

func (c *pipelineContender) Close() { closeClients(c.clients) }

func (c *pipelineContender) LockUnlock(ctx context.Context, key string) error {
	return c.LockUnlockMany(ctx, []string{key})
}

func (c *pipelineContender) LockUnlockMany(ctx context.Context, keys []string) error {
	token := rand.Text()
	err := c.ask(ctx, keys, func(b rueidis.Builder, key string) rueidis.Completed {
		return b.Arbitrary("SET", key, token, "NX", "PX", ttlMillis).Build()
	}, func(r rueidis.RedisResult) bool { return r.Error() == nil })
	released := c.ask(ctx, keys, func(b rueidis.Builder, key string) rueidis.Completed {
		return b.Arbitrary("EVALSHA", c.sha, "1", key, token).Build()
	}, func(r rueidis.RedisResult) bool { n, err := r.AsInt64(); return err == nil && n == 1 })
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if released != nil {
		return fmt.Errorf("release: %w", released)
	}
	return nil
}

// ask sends one command per key to every node and wants a quorum of yes votes for each key.
func (c *pipelineContender) ask(ctx context.Context, keys []string,
	form func(b rueidis.Builder, key string) rueidis.Completed, yes func(rueidis.RedisResult) bool,
) error {
	votes := make([][]rueidis.RedisResult, len(c.clients))
	_ = concurrently(len(c.clients), func(i int) error {
		cmds := make([]rueidis.Completed, len(keys))
		for k, key := range keys {
			cmds[k] = form(c.clients[i].B(), key)
		}
		votes[i] = c.clients[i].DoMulti(ctx, cmds...)
		return nil
	})
	for k, key := range keys {
		granted := 0
		for _, v := range votes {
			if yes(v[k]) {
				granted++
			}
		}
		if need := len(c.clients)/2 + 1; granted < need {
			return fmt.Errorf("%s: %d of %d votes, %d needed", key, granted, len(c.clients), need)
		}
	}
	return nil
}

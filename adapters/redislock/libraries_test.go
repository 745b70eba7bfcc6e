package redislock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	original "github.com/bsm/redislock"
	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/redislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
)

const (
	// longTTL outlasts every test. Tests wait for shortTTL, which is long enough for an attempt on
	// a busy machine.
	longTTL  = time.Minute
	shortTTL = 2 * time.Second
	// testTimeout bounds each wait.
	testTimeout = time.Minute
)

// lock is what users of redislock call.
type lock interface {
	Key() string
	Keys() []string
	Token() string
	Metadata() string
	TTL(ctx context.Context) (time.Duration, error)
	Release(ctx context.Context) error
}

var (
	_ lock = (*redislock.Lock)(nil)
	_ lock = (*original.Lock)(nil)
)

// strategy is a RetryStrategy of either library, or nil.
type strategy interface{ NextBackoff() time.Duration }

// library is redislock or its adapter, on some nodes.
type library struct {
	obtain func(ctx context.Context, ttl time.Duration, s strategy, keys ...string) (lock,
		error)
	refresh              func(ctx context.Context, l lock, ttl time.Duration, s strategy) error
	linear               func(time.Duration) strategy
	limit                func(strategy, int) strategy
	notObtained, notHeld error
}

// openFunc opens a library on some nodes; it is closed at the end of the test.
type openFunc func(t *testing.T, nodes *lockpipetest.Nodes) library

var libraries = map[string]openFunc{"redislock": openRedislock, "lockpipe": openLockpipe}

// withEach runs the test for both libraries on one node, a real one and one in memory, and for the
// adapter on three nodes.
func withEach(t *testing.T, test func(t *testing.T, nodes *lockpipetest.Nodes, lib library)) {
	t.Helper()
	nodes := lockpipetest.StartRealT(t, 1)
	for name, open := range libraries {
		t.Run(name, func(t *testing.T) { test(t, nodes, open(t, nodes)) })
	}
	// Nodes in memory are good for both.
	memory, err := lockpipetest.StartInProcess(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, memory.Close()) })
	for name, open := range libraries {
		t.Run(name+" in memory", func(t *testing.T) { test(t, memory, open(t, memory)) })
	}
	t.Run("lockpipe on three", func(t *testing.T) {
		nodes := lockpipetest.StartRealT(t, 3)
		test(t, nodes, openLockpipe(t, nodes))
	})
}

func openRedislock(t *testing.T, nodes *lockpipetest.Nodes) library {
	t.Helper()
	opt, err := redis.ParseURL(nodes.URLs()[0])
	require.NoError(t, err)
	// Only hosted services know the command; plain servers refuse it on each connection.
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(opt)
	t.Cleanup(func() { client.Close() })
	locker := original.New(client)
	return library{
		obtain: func(ctx context.Context, ttl time.Duration, s strategy, keys ...string) (lock,
			error,
		) {
			return orNil(locker.ObtainMulti(ctx, keys, ttl, &original.Options{RetryStrategy: s}))
		},
		refresh: func(ctx context.Context, l lock, ttl time.Duration, s strategy) error {
			return l.(*original.Lock).Refresh(ctx, ttl, &original.Options{RetryStrategy: s})
		},
		linear:      func(d time.Duration) strategy { return original.LinearBackoff(d) },
		limit:       func(s strategy, n int) strategy { return original.LimitRetry(s, n) },
		notObtained: original.ErrNotObtained, notHeld: original.ErrLockNotHeld,
	}
}

func openLockpipe(t *testing.T, nodes *lockpipetest.Nodes) library {
	t.Helper()
	locker := redislock.New(newClient(t, nodes))
	return library{
		obtain: func(ctx context.Context, ttl time.Duration, s strategy, keys ...string) (lock,
			error,
		) {
			return orNil(locker.ObtainMulti(ctx, keys, ttl, &redislock.Options{RetryStrategy: s}))
		},
		refresh: func(ctx context.Context, l lock, ttl time.Duration, s strategy) error {
			return l.(*redislock.Lock).Refresh(ctx, ttl, &redislock.Options{RetryStrategy: s})
		},
		linear:      func(d time.Duration) strategy { return redislock.LinearBackoff(d) },
		limit:       func(s strategy, n int) strategy { return redislock.LimitRetry(s, n) },
		notObtained: redislock.ErrNotObtained, notHeld: redislock.ErrLockNotHeld,
	}
}

// orNil returns a nil interface in place of a nil pointer.
func orNil[P lock](l P, err error) (lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// newClient returns a client whose timeout is long enough for a busy machine.
func newClient(t *testing.T, nodes *lockpipetest.Nodes) *lockpipe.Client {
	t.Helper()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: longTTL, NodeTimeout: longTTL / 4,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		_ = client.Close(ctx) // an error if a test left dead nodes
	})
	require.NoError(t, client.Ready(t.Context()))
	return client
}

// holders returns how many nodes have a value with that token for the key; "" means none. Behind
// the token, lockpipe's values have one more character.
func holders(t *testing.T, nodes *lockpipetest.Nodes, key, token string) (n int) {
	t.Helper()
	for i := range nodes.Len() {
		reply, err := nodes.Do(i, "GET", key)
		require.NoError(t, err)
		if v, _ := reply.(string); v == token ||
			token != "" && len(v) == len(token)+1 && strings.HasPrefix(v, token) {
			n++
		}
	}
	return n
}

// requireHeld fails unless a majority of the nodes has the token of l for all its keys.
func requireHeld(t *testing.T, nodes *lockpipetest.Nodes, l lock) {
	t.Helper()
	require.NotEmpty(t, l.Token())
	for _, key := range l.Keys() {
		require.Greater(t, 2*holders(t, nodes, key, l.Token()), nodes.Len())
	}
}

func waitUntilFree(t *testing.T, nodes *lockpipetest.Nodes, key string) {
	t.Helper()
	require.Eventually(t, func() bool { return holders(t, nodes, key, "") == nodes.Len() },
		testTimeout, time.Millisecond)
}

// doOnAll sends a command to all nodes.
func doOnAll(t *testing.T, nodes *lockpipetest.Nodes, args ...string) {
	t.Helper()
	for i := range nodes.Len() {
		_, err := nodes.Do(i, args...)
		require.NoError(t, err)
	}
}

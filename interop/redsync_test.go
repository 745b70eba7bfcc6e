package interop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rueidispool "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/stretchr/testify/require"
)

type redsyncLocker struct{ rs *redsync.Redsync }

func openRedsyncGoredis(t *testing.T, urls []string) locker {
	t.Helper()
	pools := make([]redsyncredis.Pool, len(urls))
	for i, url := range urls {
		opt, err := redis.ParseURL(url)
		require.NoError(t, err)
		// Only hosted services know the command; plain servers refuse it on each connection.
		opt.MaintNotificationsConfig = &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		}
		client := redis.NewClient(opt)
		t.Cleanup(func() { client.Close() })
		pools[i] = goredispool.NewPool(client)
	}
	return redsyncLocker{redsync.New(pools...)}
}

func openRedsyncRueidis(t *testing.T, urls []string) locker {
	t.Helper()
	pools := make([]redsyncredis.Pool, len(urls))
	for i, url := range urls {
		opt, err := rueidis.ParseURL(url)
		require.NoError(t, err)
		opt.DisableCache, opt.ForceSingleClient = true, true
		client, err := rueidis.NewClient(opt)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		pools[i] = rueidispool.NewPool(rueidiscompat.NewAdapter(client))
	}
	return redsyncLocker{redsync.New(pools...)}
}

func (l redsyncLocker) try(ctx context.Context, key string, ttl time.Duration) (*lock, error) {
	return l.lock(ctx, key, ttl, redsync.WithTries(1))
}

func (l redsyncLocker) wait(ctx context.Context, key string, ttl time.Duration) (*lock, error) {
	return l.lock(ctx, key, ttl, redsync.WithTries(math.MaxInt),
		redsync.WithRetryDelayFunc(func(int) time.Duration {
			return 5*time.Millisecond + rand.N(25*time.Millisecond)
		}))
}

func (l redsyncLocker) lock(ctx context.Context, key string, ttl time.Duration,
	options ...redsync.Option,
) (*lock, error) {
	// A master may take half of the TTL to answer, instead of a twentieth.
	options = append(options, redsync.WithExpiry(ttl), redsync.WithTimeoutFactor(0.5))
	m := l.rs.NewMutex(key, options...)
	err := m.LockContext(ctx)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return nil, fmt.Errorf("%w: %w", errTaken, err)
	}
	if err != nil {
		return nil, err
	}
	return &lock{
		value:   m.Value(),
		until:   m.Until(),
		extend:  func(ctx context.Context) error { return done(m.ExtendContext(ctx)) },
		release: func(ctx context.Context) error { return done(m.UnlockContext(ctx)) },
	}, nil
}

// done returns an error unless a majority did it. redsync may return (false, nil), and an error
// together with true.
func done(ok bool, err error) error {
	if ok {
		return nil
	}
	return fmt.Errorf("redsync: no majority did it (%w)", err)
}

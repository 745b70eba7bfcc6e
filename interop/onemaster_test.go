package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"
)

// redislock and rueidislock support only one master. A lockpipe client with that one master can
// replace them without a gap, as docs/migrate/README.md describes, if it locks the same keys.

type redislockLocker struct{ client *redislock.Client }

func openRedislock(t *testing.T, url string) redislockLocker {
	t.Helper()
	opt, err := redis.ParseURL(url)
	require.NoError(t, err)
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(opt)
	t.Cleanup(func() { client.Close() })
	return redislockLocker{redislock.New(client)}
}

func (l redislockLocker) try(ctx context.Context, key string, ttl time.Duration) (*lock, error) {
	held, err := l.client.ObtainMulti(ctx, strings.Split(key, " "), ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, fmt.Errorf("%w: %w", errTaken, err)
	}
	if err != nil {
		return nil, err
	}
	return &lock{release: held.Release}, nil
}

type rueidislockLocker struct{ rueidislock.Locker }

func openRueidislock(t *testing.T, url string, majority int32) rueidislockLocker {
	t.Helper()
	opt, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	opt.ForceSingleClient = true
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: opt, KeyMajority: majority, KeyValidity: longTTL,
		TryNextAfter: longTTL / 4, // long enough for a busy machine
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return rueidislockLocker{locker}
}

func (l rueidislockLocker) try(ctx context.Context, name string, _ time.Duration) (*lock, error) {
	_, unlock, err := l.TryWithContext(ctx, name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, fmt.Errorf("%w: %w", errTaken, err)
	}
	if err != nil {
		return nil, err
	}
	return &lock{release: func(context.Context) error { unlock(); return nil }}, nil
}

// rueidislockKeys returns the keys of a lock on the master.
func rueidislockKeys(name string, majority int) []string {
	keys := make([]string, 2*majority-1)
	for i := range keys {
		keys[i] = "rueidislock:" + strconv.Itoa(i) + ":" + name
	}
	return keys
}

// The goal: on one master, lockpipe with the same keys and redislock or rueidislock exclude each
// other. Each gets the keys that the other has released.
func TestOneMaster_BothExcludeEachOther(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: longTTL,
		NodeTimeout: longTTL / 4,
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	type tryLocker interface {
		try(ctx context.Context, key string, ttl time.Duration) (*lock, error)
	}
	for name, c := range map[string]struct {
		their tryLocker
		key   string   // as they call it
		keys  []string // as the master does
	}{
		"redislock": {openRedislock(t, nodes.URLs()[0]), "a", []string{"a"}},
		"redislock, many keys": {
			openRedislock(t, nodes.URLs()[0]), "b c d",
			[]string{"b", "c", "d"},
		},
		"rueidislock, one key": {
			openRueidislock(t, nodes.URLs()[0], 1), "e",
			rueidislockKeys("e", 1),
		},
		"rueidislock, majority of 3": {
			openRueidislock(t, nodes.URLs()[0], 2), "f",
			rueidislockKeys("f", 2),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				theirs, err := c.their.try(t.Context(), c.key, longTTL)
				require.NoError(t, err)
				_, err = client.TryAcquireAll(t.Context(), c.keys)
				held, isHeld := errors.AsType[*lockpipe.HeldError](err)
				require.True(t, isHeld, "%v", err)
				require.Subset(t, c.keys, held.Keys)
				require.NoError(t, theirs.release(t.Context()))

				lease, err := client.TryAcquireAll(t.Context(), slices.Clone(c.keys))
				require.NoError(t, err)
				_, err = c.their.try(t.Context(), c.key, longTTL)
				require.ErrorIs(t, err, errTaken)
				require.NoError(t, lease.Release(t.Context()))
			}
		})
	}
}

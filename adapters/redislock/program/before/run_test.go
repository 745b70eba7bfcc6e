package program

import (
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The goal: the program does its work with redislock.
func TestProgram_RunsWithRedislock(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	client := redis.NewClient(&redis.Options{
		Addr: strings.TrimPrefix(nodes.URLs()[0], "redis://"),
	})
	defer client.Close()
	s := &stock{
		locker: redislock.New(client), retry: redislock.LinearBackoff(time.Millisecond), left: 9,
	}
	done, err := s.once(t.Context(), "job")
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, s.take(t.Context(), "42"))
	require.NoError(t, s.swap(t.Context(), "42", "43"))
	require.Equal(t, 7, s.left)
	held, err := s.locker.Obtain(t.Context(), "job", time.Minute, nil)
	require.NoError(t, err)
	done, err = s.once(t.Context(), "job")
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, held.Release(t.Context()))
}

package program

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"
)

// The goal: the program does its work with rueidislock.
func TestProgram_RunsWithRueidislock(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	opt, err := rueidis.ParseURL(nodes.URLs()[0])
	require.NoError(t, err)
	opt.ForceSingleClient = true
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: opt, KeyMajority: 1, KeyValidity: time.Minute, TryNextAfter: 10 * time.Second,
	})
	require.NoError(t, err)
	s := &stock{locker: locker, left: 9}
	defer s.close()
	require.NoError(t, s.take(t.Context(), "42"))
	done, err := s.once(t.Context(), "job")
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, 7, s.left)
	_, cancel, err := locker.WithContext(t.Context(), "job")
	require.NoError(t, err)
	done, err = s.once(t.Context(), "job")
	require.NoError(t, err)
	require.False(t, done)
	cancel()
}

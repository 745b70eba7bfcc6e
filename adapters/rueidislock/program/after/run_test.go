package program

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/rueidislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: the program that has moved differs in its import alone.
func TestProgram_OnlyTheImportChanges(t *testing.T) {
	before, err := os.ReadFile("../before/program_test.go")
	require.NoError(t, err)
	after, err := os.ReadFile("program_test.go")
	require.NoError(t, err)
	require.Equal(t, string(after), strings.Replace(string(before),
		"github.com/redis/rueidis/rueidislock",
		"github.com/lockpipe/lockpipe/adapters/rueidislock", 1))
}

// The goal: the program that has moved does its work.
func TestProgram_RunsWithTheAdapter(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: lockpipe.Config{
			Nodes: nodes.URLs(), TTL: time.Minute, NodeTimeout: 10 * time.Second,
		},
		KeyMajority: 1, KeyValidity: time.Minute,
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

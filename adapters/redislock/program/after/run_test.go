package program

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/redislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: the program that has moved differs in its import alone.
func TestProgram_OnlyTheImportChanges(t *testing.T) {
	before, err := os.ReadFile("../before/program_test.go")
	require.NoError(t, err)
	after, err := os.ReadFile("program_test.go")
	require.NoError(t, err)
	require.Equal(t, string(after), strings.Replace(string(before), "github.com/bsm/redislock",
		"github.com/lockpipe/lockpipe/adapters/redislock", 1))
}

// The goal: the program that has moved does its work.
func TestProgram_RunsWithTheAdapter(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), NodeTimeout: 10 * time.Second, MaxTTL: time.Minute,
	})
	require.NoError(t, err)
	defer client.Close(t.Context())
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

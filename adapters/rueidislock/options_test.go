package rueidislock_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/rueidislock"
)

// The goal: a program that sets rueidislock's other options compiles, and learns that they have no
// effect.
func TestNewLocker_LogsOptionsWithoutEffect(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	for _, option := range []rueidislock.LockerOption{
		{NoLoopTracking: true, ExtendInterval: time.Second}, {},
	} {
		said.Reset()
		option.ClientOption = lockpipe.Config{
			Nodes: []string{"redis://127.0.0.1:1"}, Logger: slog.New(slog.NewTextHandler(&said, nil)),
		}
		locker, err := rueidislock.NewLocker(option)
		require.NoError(t, err)
		locker.Close()
		for _, name := range []string{"NoLoopTracking", "ExtendInterval"} {
			require.Equal(t, option.NoLoopTracking,
				bytes.Contains(said.Bytes(), []byte("LockerOption."+name+" has no effect")))
		}
		require.NotContains(t, said.String(), "TryNextAfter")
	}
}

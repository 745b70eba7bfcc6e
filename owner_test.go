package lockpipe_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

func ownedBy(name string) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.Owner = name }
}

// The goal: each lock on the nodes names its owner, host and process if nobody said otherwise, and
// is released with the name. NoOwner leaves the random bits alone.
func TestOwner_IsKeptWithEachLock(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 1)
	host, err := os.Hostname()
	require.NoError(t, err)
	for name, suffix := range map[string]string{
		"":               fmt.Sprintf("@%s:%d", host, os.Getpid()),
		"orders/eu-1":    "@orders/eu-1",
		lockpipe.NoOwner: "",
	} {
		c := connected(t, newClient(t, nodes, ownedBy(name)))
		single := try(t, c, "a")
		several, err := c.TryAcquireAll(t.Context(), []string{"b", "c"}, lockpipe.WithFencing())
		require.NoError(t, err)
		for _, l := range []*lockpipe.Lease{single, several} {
			require.Len(t, l.Token(), 27+len(suffix))
			require.Equal(t, suffix, l.Token()[27:])
			for _, key := range l.Keys() {
				require.Equal(t, l.Token(), value(t, nodes, 0, key))
			}
			require.NoError(t, l.Extend(t.Context(), longTTL))
			release(t, l)
		}
		nothingLeft(t, nodes, 0)
	}
}

package calls

import (
	"strconv"
	"sync"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: thousands of calls that come at once are granted by one attempt each, also on a busy
// machine. What the nodes were not sent yet, or have answered and nobody has read, is no reason to
// fail and to come again.
func TestBurst_EachCallMakesOneAttempt_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	const callers = 6000
	// An attempt is of use for half of the TTL, however late the machine is.
	c, err := lockpipe.New(lockpipe.Config{Nodes: servertest.Start(t, 5).URLs(), TTL: kit.LongTTL})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	require.NoError(t, c.Ready(t.Context()))
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			l, err := c.Acquire(t.Context(), "k"+strconv.Itoa(i))
			if err == nil {
				err = l.Release(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Less(t, c.Stats().Attempts, uint64(callers*11/10))
}

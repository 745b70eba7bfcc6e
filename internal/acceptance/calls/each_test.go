package calls

import (
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: in TryAcquireEach the entries of one key share one lease or one error, and all entries
// are in the order of the call.
func TestEach_EntriesOfOneKeyShareOneResult(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	holder := kit.Try(t, c, "held")
	keys := []string{"a", "held", "b", "a", "held", "a"}
	results := c.TryAcquireEach(t.Context(), keys)
	require.Len(t, results, len(keys))
	for i, r := range results {
		require.Equal(t, keys[i], r.Key)
		require.Equal(t, r.Err == nil, r.Lease != nil)
		if r.Key == "held" {
			require.ErrorIs(t, r.Err, lockpipe.ErrHeld)
			continue
		}
		require.NoError(t, r.Err)
		require.Equal(t, []string{r.Key}, r.Lease.Keys())
	}
	require.Same(t, results[0].Lease, results[3].Lease)
	require.Same(t, results[0].Lease, results[5].Lease)
	require.NotEqual(t, results[0].Lease.Token(), results[2].Lease.Token())
	require.NoError(t, c.ReleaseAll(t.Context(), results[0].Lease, results[2].Lease,
		results[3].Lease, holder))
	kit.NothingLeft(t, nodes)
}

package interop

import (
	"errors"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: while another library holds one key of a set, lockpipe does not get the set and keeps
// none of its keys. While lockpipe holds a set, the others are refused each of its keys.
func TestSets_EachKeyExcludes(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, their library) {
		other := their.open(t, nodes.URLs())
		for _, our := range ours {
			t.Run(our.name, func(t *testing.T) {
				l := our.open(t, nodes.URLs()).(*lockpipeLocker)
				keys := []string{prefix + t.Name() + "/a", prefix + t.Name() + "/b", prefix +
					t.Name() + "/c"}

				theirs := mustTry(t, other, keys[1], longTTL)
				_, err := l.acquire(t.Context(), l.client.TryAcquireAll, longTTL, keys...)
				require.ErrorIs(t, err, errTaken)
				held, isHeld := errors.AsType[*lockpipe.HeldError](err)
				require.True(t, isHeld)
				require.Equal(t, []string{keys[1][len(prefix):]}, held.Keys)
				for _, key := range []string{keys[0], keys[2]} {
					free := mustTry(t, other, key, longTTL)
					require.NoError(t, free.release(t.Context()))
				}
				require.NoError(t, theirs.release(t.Context()))

				set, err := l.acquire(t.Context(), l.client.TryAcquireAll, longTTL, keys...)
				require.NoError(t, err)
				for _, key := range keys {
					requireTaken(t, other, key)
				}
				require.NoError(t, set.extend(t.Context()))
				require.NoError(t, set.release(t.Context()))
				for _, key := range keys {
					free := mustTry(t, other, key, longTTL)
					require.NoError(t, free.release(t.Context()))
				}
			})
		}
	})
}

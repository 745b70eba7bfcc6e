package check

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/script"
)

// Goal: only the value that was read is deleted. What the node has instead by then stays.
func TestFree_ComparesTheWholeValue(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	node := endpointOf(t, nodes.URLs()[0])
	set := func(key, value string) {
		_, err := nodes.Do(0, "SET", key, value, "PX", "60000")
		require.NoError(t, err)
	}
	token := strings.Repeat("A", 26) + "Q@web-1:7"
	const count = 2*script.MaxKeys + 1
	for i := range count {
		set("k"+strconv.Itoa(i), token+"A")
	}
	set("k0", token+" A")
	owned, err := FindOwned(t.Context(), node, "k")
	require.NoError(t, err)
	require.Len(t, owned, count)
	require.Equal(t, "k0", owned[0].Key)
	require.True(t, owned[0].Kept)
	require.False(t, owned[1].Kept)
	require.Equal(t, "web-1:7", owned[1].Owner)
	require.InDelta(t, time.Minute, owned[1].Left, float64(30*time.Second))
	set("k1", token+" A")                              // it was kept
	set("k2", token+"B")                               // it is another node's
	set("k3", strings.Repeat("B", 26)+"Q@web-1:7"+"A") // another lease has it
	freed, err := Free(t.Context(), node, owned[1:])
	require.NoError(t, err)
	require.Len(t, freed, count-4)
	left, err := nodes.Keys(0, "")
	require.NoError(t, err)
	require.Equal(t, []string{"k0", "k1", "k2", "k3"}, left)
}

// Goal: a value that is longer than a token, or begins like one, is nobody's lock.
func TestFindOwned_TakesNoOtherValue(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	token := strings.Repeat("A", 26) + "Q@web-1:7"
	for i, value := range []string{"", token + strings.Repeat("x", 1<<16), "web-1:7", token + " "} {
		_, err := nodes.Do(0, "SET", strconv.Itoa(i), value)
		require.NoError(t, err)
	}
	owned, err := FindOwned(t.Context(), endpointOf(t, nodes.URLs()[0]), "")
	require.NoError(t, err)
	require.Empty(t, owned)
}

package multiplex

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: to a node that no trip since its connection reached quickly, few keys leave beside a flush under way; one quick trip is
// enough to know better, and slow ones behind it change nothing.
func TestOnlyToAFarNodeDoFewKeysLeaveBesideAFlush(t *testing.T) {
	var d distance
	require.Equal(t, besideNear, d.beside(), "nothing is known yet")
	d.travelled(3 * time.Millisecond)
	require.Equal(t, besideFar, d.beside())
	d.travelled(farFrom)
	require.Equal(t, besideFar, d.beside())
	d.travelled(farFrom - 1)
	require.Equal(t, besideNear, d.beside())
	d.travelled(time.Second)
	require.Equal(t, besideNear, d.beside())
	d.forgetDistance()
	d.travelled(time.Second)
	require.Equal(t, besideFar, d.beside(), "another connection may have another way")
}

package ids_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/ids"
)

// The numbers are what they always were: fleets with another weight would exclude nothing.
func TestWeight_NeverChanges(t *testing.T) {
	require.Equal(t, uint64(0xb900e1004c686e8), ids.Weight("sku:42", "a"))
	require.Equal(t, uint64(0xb9034ad37056f5fb), ids.Weight("", ""))
}

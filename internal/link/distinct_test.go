package link

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: a server that was connected, and could not be told apart from the others in time, is
// not reported as one that was not connected: connect reports a deadline like that.
func TestDistinct_ATimeoutIsNotThatOfAConnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, why := range []error{nil, context.DeadlineExceeded} {
		err := notDistinct(ctx, why)
		require.ErrorContains(t, err, "not told apart from the other nodes within 500ms")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
	broke := errors.New("broke")
	require.Equal(t, broke, notDistinct(t.Context(), broke))
	require.NoError(t, notDistinct(t.Context(), nil))
}

package calls

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: a call for any of some keys whose ctx has ended makes no attempt, also if the call
// knows free keys, and nobody else looks at them.
func TestAny_NoAttemptAfterTheEnd(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	p := c.join([]string{"x", "y"})
	defer c.part(p)
	ctx, end := context.WithCancel(t.Context())
	end()
	for range 20 { // a select with two ready cases takes either
		p.free = []string{"x", "y"}
		some, _, f := c.chooseKeys(ctx, p, 1, false)
		require.Empty(t, some)
		require.ErrorIs(t, f.End, context.Canceled)
	}
}

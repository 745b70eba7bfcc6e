package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// The goal: of a string the reply has the beginning, however the stream is split, and not more: the
// memory for it stays.
func TestChecker_HasTheBeginOfAString(t *testing.T) {
	for _, n := range []int{0, 1, 100, resp.MaxText - 1, resp.MaxText, resp.MaxText + 1, 1000} {
		text := strings.Repeat("x", n)
		stream := fmt.Sprintf("$%d\r\n%s\r\n", n, text)
		for _, step := range []int{1, 7, 255, len(stream)} {
			var c resp.Checker
			complete := false
			for in := []byte(stream); len(in) > 0; {
				used, whole, err := c.Next(in[:min(step, len(in))])
				require.NoError(t, err)
				in, complete = in[used:], whole
			}
			require.True(t, complete)
			require.Equal(t, resp.KindString, c.Reply().Kind)
			require.Equal(t, text[:min(n, resp.MaxText)], string(c.Reply().Text))
		}
	}
}

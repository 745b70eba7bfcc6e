package resp_test

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

func TestConn_ReturnsTheReplyOrTheServersError(t *testing.T) {
	c := resptest.Dial(t, func(words []string) string {
		if words[0] == "ECHO" {
			return resptest.Bulk(words[1])
		}
		return "-ERR unknown command\r\n"
	})
	for _, text := range []string{"a", "", "\r\n"} {
		v, err := c.Ask("ECHO", text)
		require.NoError(t, err)
		require.Equal(t, text, v.Text)
	}
	_, err := c.Ask("NO")
	require.EqualError(t, err, "ERR unknown command")
}

package resp_test

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

func TestConn_ReturnsTheReplyOrTheServersError(t *testing.T) {
	c := connTo(t, func(words []string) string {
		if words[0] == "ECHO" {
			return resptest.Bulk(words[1])
		}
		return "-ERR unknown command\r\n"
	})
	for _, text := range []string{"a", "", "\r\n"} {
		v, err := c.Ask("ECHO", text)
		require.NoError(t, err)
		require.Equal(t, text, v.Any())
	}
	_, err := c.Ask("NO")
	require.EqualError(t, err, "ERR unknown command")
}

func TestConn_ScansAllPages(t *testing.T) {
	pages := map[string]string{"0": "17", "17": "5", "5": "0"}
	c := connTo(t, func(words []string) string {
		cursor := words[1]
		require.Equal(t, []string{"SCAN", cursor, "COUNT", "2"}, words)
		return "*2\r\n" + resptest.Bulk(pages[cursor]) + resptest.Strings("a", "b"+cursor)
	})
	var keys []string
	require.NoError(t, c.Scan(func(key string) { keys = append(keys, key) }, "COUNT", "2"))
	require.Equal(t, []string{"a", "b0", "a", "b17", "a", "b5"}, keys)
}

// The goal: a reply that is no page of SCAN is an error, and never an end of the keys.
func TestConn_RefusesWhatIsNoPageOfScan(t *testing.T) {
	for _, reply := range []string{
		"$-1\r\n", "*-1\r\n", ":1\r\n", resptest.Bulk("0"), "*0\r\n", resptest.Strings("0"),
		"*2\r\n:0\r\n*0\r\n", "*2\r\n$0\r\n\r\n*0\r\n", "*2\r\n$1\r\n0\r\n$-1\r\n",
		"*2\r\n$1\r\n0\r\n*-1\r\n", "-ERR no\r\n", "?\r\n",
	} {
		err := connTo(t, func([]string) string { return reply }).Scan(func(string) {})
		require.Error(t, err, "%q", reply)
	}
}

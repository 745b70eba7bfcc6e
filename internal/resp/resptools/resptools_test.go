package resptools_test

import (
	"errors"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/resp/resptools"
	"github.com/stretchr/testify/require"
)

func TestAny_IsTheValueInGo(t *testing.T) {
	for text, want := range map[string]any{
		"+OK\r\n": "OK", "+\r\n": "", ":-7\r\n": int64(-7), "$-1\r\n": nil, "*-1\r\n": nil,
		"$0\r\n\r\n": "", "*0\r\n": []any{}, "-ERR no\r\n": errors.New("ERR no"),
		"*3\r\n:1\r\n$-1\r\n*1\r\n-ERR x\r\n": []any{int64(1), nil, []any{errors.New("ERR x")}},
	} {
		v, _ := resptest.Dial(t, func([]string) string { return text }).Ask("X")
		require.Equal(t, want, resptools.Any(v), "%q", text)
	}
}

func TestScan_WalksAllPages(t *testing.T) {
	pages := map[string]string{"0": "17", "17": "5", "5": "0"}
	c := resptest.Dial(t, func(words []string) string {
		cursor := words[1]
		require.Equal(t, []string{"SCAN", cursor, "COUNT", "2"}, words)
		return "*2\r\n" + resptest.Bulk(pages[cursor]) + resptest.Strings("a", "b"+cursor)
	})
	var keys []string
	found := func(key string) { keys = append(keys, key) }
	require.NoError(t, resptools.Scan(c, found, "COUNT", "2"))
	require.Equal(t, []string{"a", "b0", "a", "b17", "a", "b5"}, keys)
}

// The goal: a reply that is no page of SCAN is an error, and never an end of the keys.
func TestScan_RefusesWhatIsNoPage(t *testing.T) {
	for _, reply := range []string{
		"$-1\r\n", "*-1\r\n", ":1\r\n", resptest.Bulk("0"), "*0\r\n", resptest.Strings("0"),
		"*2\r\n:0\r\n*0\r\n", "*2\r\n$0\r\n\r\n*0\r\n", "*2\r\n$1\r\n0\r\n$-1\r\n",
		"*2\r\n$1\r\n0\r\n*-1\r\n", "-ERR no\r\n", "?\r\n",
	} {
		c := resptest.Dial(t, func([]string) string { return reply })
		err := resptools.Scan(c, func(string) {})
		require.Error(t, err, "%q", reply)
	}
}

package lockpipetest

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReply_AcceptsReplies(t *testing.T) {
	for wire, want := range map[string]any{
		"+OK\r\n":                        "OK",
		"+\r\n":                          "",
		"-ERR no\r\n":                    replyError("ERR no"),
		":-7\r\n":                        int64(-7),
		"$-1\r\n":                        nil,
		"*-1\r\n":                        nil,
		"$0\r\n\r\n":                     "",
		"$4\r\na\r\nb\r\n":               "a\r\nb",
		"*0\r\n":                         []any{},
		"*2\r\n:1\r\n*1\r\n-ERR x\r\n":   []any{int64(1), []any{replyError("ERR x")}},
		"*3\r\n$1\r\na\r\n$-1\r\n+b\r\n": []any{"a", nil, "b"},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(wire)), maxDepth)
		require.NoError(t, err, "%q", wire)
		require.Equal(t, want, got, "%q", wire)
	}
}

func TestReadReply_RefusesOtherInput(t *testing.T) {
	for _, wire := range []string{
		"", "\r\n", "+OK", "+OK\n", "?1\r\n", "HTTP/1.1 400 Bad Request\r\n", ":x\r\n", "$x\r\n",
		"$-2\r\n", "*-2\r\n",
		"$3\r\nab\r\n", "$1\r\nabc\r\n", "$9999999999\r\n", "*2\r\n:1\r\n", strings.Repeat("*1\r\n",
			maxDepth+2) + ":1\r\n",
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(wire)), maxDepth)
		require.Error(t, err, "%q gave %v", wire, got)
	}
}

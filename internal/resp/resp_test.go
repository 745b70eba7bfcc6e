package resp_test

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// The goal: lengths are in bytes, and a text may have any bytes.
func TestAppendCommand_WritesAnArrayOfStrings(t *testing.T) {
	require.Equal(t, "before*3\r\n$3\r\nGET\r\n$4\r\né\r\n\r\n$0\r\n\r\n",
		string(resp.AppendCommand([]byte("before"), "GET", "é\r\n", "")))
}

func TestValue_AsStringIsForStringsAlone(t *testing.T) {
	for text, want := range map[string]bool{
		"+x\r\n": true, "$1\r\nx\r\n": true, "$0\r\n\r\n": true,
		"$-1\r\n": false, ":1\r\n": false, "-x\r\n": false, "*0\r\n": false, "*-1\r\n": false,
	} {
		v, err := read(text)
		require.NoError(t, err)
		_, ok := v.AsString()
		require.Equal(t, want, ok, "%q", text)
	}
}

// The goal: a field is its whole line, values may have colons, and headings are no fields.
func TestParseInfo_ReadsEachLine(t *testing.T) {
	require.Equal(t, map[string]string{"a": "1", "b": "x:y", "c": ""},
		resp.ParseInfo("# Server\r\na:1\r\n\r\nb:x:y\r\nc:\r\nd"))
}

package resp_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

var small = resp.Limits{Line: 4 << 10, Bytes: 64 << 10, Items: 128}

// said is a connection on which a server has said something, and ends it.
type said struct {
	net.Conn
	text io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.text.Read(p) }

func read(text string) (resp.Value, error) {
	return resp.NewConnWithin(said{text: strings.NewReader(text)}, small).Receive()
}

// The goal: each kind of reply is read to its end, and not further.
func TestConn_ReadsRepliesExactly(t *testing.T) {
	for text, want := range map[string]resp.Value{
		"+OK\r\n":          {Kind: '+', Text: "OK"},
		"-ERR no\r\n":      {Kind: '-', Text: "ERR no"},
		":-7\r\n":          {Kind: ':', Text: "-7"},
		"$0\r\n\r\n":       {Kind: '$'},
		"$4\r\na\r\nb\r\n": {Kind: '$', Text: "a\r\nb"},
		"$-1\r\n":          {Kind: '$', Null: true},
		"*-1\r\n":          {Kind: '*', Null: true},
		"*0\r\n":           {Kind: '*'},
		"*2\r\n$1\r\na\r\n$6\r\nalways\r\n": {Kind: '*', Items: []resp.Value{
			{Kind: '$', Text: "a"},
			{Kind: '$', Text: "always"},
		}},
		"*2\r\n*1\r\n:1\r\n-ERR\r\n": {Kind: '*', Items: []resp.Value{
			{Kind: '*', Items: []resp.Value{{Kind: ':', Text: "1"}}},
			{Kind: '-', Text: "ERR"},
		}},
	} {
		c := resp.NewConnWithin(said{text: strings.NewReader(text + "+rest\r\n")}, small)
		got, err := c.Receive()
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
		got, err = c.Receive()
		require.NoError(t, err, "%q", text)
		require.Equal(t, "rest", got.Text, "%q", text)
	}
}

// The goal: bytes that no Redis server replies with are an error.
func TestConn_RefusesBytesThatAreNoReply(t *testing.T) {
	for _, text := range []string{
		"", "\r\n", "\n", "x\n", "+OK\n", "HTTP/1.1 400 Bad Request\r\n", ":\r\n", ":x\r\n",
		"$\r\n", "$-2\r\n", "$+1\r\na\r\n", "$1\r\nab\r\n", "$2\r\na", "*1\r\n", "*-2\r\n",
		"%1\r\n", "$99999999999999999999\r\n",
	} {
		_, err := read(text)
		require.Error(t, err, "%.40q", text)
	}
}

// The goal: a reply at a limit is read, and one beyond it is an error, whatever level its parts
// are on.
func TestConn_RefusesRepliesBeyondItsLimits(t *testing.T) {
	x := strings.Repeat
	for within, beyond := range map[string]string{
		"+" + x("x", 4<<10) + "\r\n":          "+" + x("x", 4<<10+1) + "\r\n",
		"$65526\r\n" + x("x", 65526) + "\r\n": "$65527\r\n" + x("x", 65527) + "\r\n",
		"*1\r\n$65522\r\n" + x("x", 65522) + "\r\n": "*2\r\n$65522\r\n" + x("x", 65522) +
			"\r\n:1\r\n",
		"*128\r\n" + x(":1\r\n", 128): "*129\r\n" + x(":1\r\n", 129),
		"*2\r\n*126\r\n" + x(":1\r\n", 126) + ":1\r\n": "*2\r\n*127\r\n" + x(":1\r\n", 127) +
			":1\r\n",
	} {
		_, err := read(within)
		require.NoError(t, err, "%.40q", within)
		_, err = read(beyond)
		require.Error(t, err, "%.40q", beyond)
	}
}

// The goal: whatever a server sends, the reader neither panics nor takes more memory than the
// limits allow, and what it accepts it has read as the server wrote it.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "-ERR x\r\n", ":1\r\n", "$3\r\nabc\r\n",
		"*2\r\n$1\r\na\r\n:1\r\n", "*-1\r\n", "$-1\r\n", "*1\r\n*1\r\n", "$70000\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		got, err := read(string(sent))
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got.Items), small.Items)
		require.LessOrEqual(t, len(got.Text), small.Bytes)
		if got.Kind == '$' && !got.Null {
			require.Contains(t, string(sent), got.Text+"\r\n")
		}
		_ = got.Err()
		_, _ = got.AsString()
	})
}

package multiplex

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: each kind of reply is read to its end, and not further.
func TestRepliesAreReadExactly(t *testing.T) {
	for text, want := range map[string]reply{
		"+OK\r\n":          {kind: '+', text: "OK"},
		"-ERR no\r\n":      {kind: '-', text: "ERR no"},
		":-7\r\n":          {kind: ':', text: "-7"},
		"$0\r\n\r\n":       {kind: '$'},
		"$4\r\na\r\nb\r\n": {kind: '$', text: "a\r\nb"},
		"$-1\r\n":          {kind: '$', null: true},
		"*-1\r\n":          {kind: '*', null: true},
		"*0\r\n":           {kind: '*'},
		"*2\r\n$1\r\na\r\n$6\r\nalways\r\n": {kind: '*', items: []reply{
			{kind: '$', text: "a"},
			{kind: '$', text: "always"},
		}},
	} {
		r := newReplyReader(strings.NewReader(text + "rest"))
		got, err := readReply(r)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
		require.Equal(t, 4, r.Buffered(), "%q", text)
	}
}

// The goal: what no Redis server replies, and what is larger than any reply of the handshake, is an
// error.
func TestBadRepliesAreErrors(t *testing.T) {
	for _, text := range []string{
		"", "\r\n", "\n", "x\n", "+OK\n", "HTTP/1.1 400 Bad Request\r\n", ":\r\n", ":x\r\n",
		"$\r\n", "$-2\r\n", "$+1\r\na\r\n", "$1\r\nab\r\n", "$2\r\na",
		"$65537\r\n" + strings.Repeat("x", 65537) + "\r\n", "$99999999999999999999\r\n",
		"*129\r\n" + strings.Repeat(":1\r\n", 129), "*1\r\n*0\r\n", "*1\r\n", "%1\r\n", "+" +
			strings.Repeat("x", maxReplyLine),
	} {
		_, err := readReply(newReplyReader(strings.NewReader(text)))
		require.Error(t, err, "%.40q", text)
	}
}

// The goal: whatever a server sends, the reader neither panics nor takes more memory than the
// limits allow, and what it accepts it has read as it stands there.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "-ERR x\r\n", ":1\r\n", "$3\r\nabc\r\n",
		"*2\r\n$1\r\na\r\n:1\r\n", "*-1\r\n", "$-1\r\n", "*1\r\n*1\r\n", "$70000\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := newReplyReader(bytes.NewReader(sent))
		got, err := readReply(r)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got.items), maxReplyItems)
		require.LessOrEqual(t, len(got.text), max(maxReplyBulk, maxReplyLine))
		if got.kind == '$' && !got.null {
			require.Contains(t, string(sent), got.text+"\r\n")
		}
		got.failure()
		got.value()
	})
}

// The goal: no text of INFO or CONFIG panics, and a run_id is only found where it stands at the
// beginning of a line.
func FuzzInfo(f *testing.F) {
	f.Add("# Server\r\nrun_id:abc\r\nuptime_in_seconds:5\r\n")
	f.Add("run_id:\r\n\r\n:::\nrun_id")
	f.Add("uptime_in_seconds:-1\r\nrun_id:x:y")
	f.Fuzz(func(t *testing.T, text string) {
		var s sight
		require.NoError(t, s.server(reply{kind: '$', text: text}))
		if s.runID != "" {
			require.Contains(t, "\n"+text, "\nrun_id:"+s.runID)
		} else {
			require.Error(t, s.silence)
		}
		require.GreaterOrEqual(t, s.uptime, 0*s.uptime)
		require.False(t, synced([]reply{{text: text}, {text: "always"}}))
	})
}

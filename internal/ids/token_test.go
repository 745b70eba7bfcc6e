package ids

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func made(s *Tokens, owner string) string {
	random := s.Next()
	return string(random[:]) + OwnerSuffix(owner)
}

// The goal: a token is 160 bits that differ each time, and its owner can be read.
func TestToken_HasItsOwner(t *testing.T) {
	var s Tokens
	form := regexp.MustCompile(`^[A-Za-z0-9_-]{27}@`)
	seen := map[string]bool{}
	for _, owner := range []string{"web-3:4711", "a", "@", "a@b@c", strings.Repeat("x", MaxOwner)} {
		for range 100 {
			token := made(&s, owner)
			require.Equal(t, owner, OwnerOf(token))
			require.Regexp(t, form, token)
			require.LessOrEqual(t, len(token), RandomLength+len(separator)+MaxOwner)
			require.False(t, seen[token[:RandomLength]])
			seen[token[:RandomLength]] = true
		}
	}
}

// The goal: without an owner a token is its random part.
func TestToken_WithoutAnOwner(t *testing.T) {
	var s Tokens
	token := made(&s, "")
	require.Len(t, token, RandomLength)
	require.Empty(t, OwnerOf(token))
}

// The goal: the tokens of other clients yield no owner, nor do values that are no tokens.
func TestToken_OfOthersHasNoOwner(t *testing.T) {
	random := func(n int) []byte {
		b := make([]byte, n)
		_, _ = rand.Read(b)
		return b
	}
	for range 1000 {
		for _, foreign := range []string{
			base64.StdEncoding.EncodeToString(random(16)),            // redsync
			base64.RawURLEncoding.EncodeToString(random(16)) + "@me", // redislock, with metadata
			hex.EncodeToString(random(16)),                           // node-redlock
			hex.EncodeToString(random(20)),
			"d7a7c1a0-6d0b-4f0b-9c0d-" + hex.EncodeToString(random(6)), // a UUID
			base64.RawURLEncoding.EncodeToString(random(40)),
			string(random(60)),
		} {
			require.Empty(t, OwnerOf(foreign), "%q", foreign)
		}
	}
	const own = "0sB2c5mXc0JkSmqjHqTAfGTxDYo"
	require.Equal(t, "a", OwnerOf(own+"@a"))
	for _, value := range []string{
		"", own, own + "@", own + "a", own + ":a", own[1:] + "@a", own + "x@a",
		own[:26] + "p@a", // bits that no encoding sets
		"\n" + own[1:] + "@a", own[:5] + "\r\n" + own[7:] + "@a",
		own + "@a b", own + "@a\n", own + "@\x7f", own + "@é",
		own + "@" + strings.Repeat("x", MaxOwner+1),
	} {
		require.Empty(t, OwnerOf(value), "%q", value)
	}
}

// The goal: the default names the host and the process, whatever the name of the host is.
func TestOwner_OfThisProcess(t *testing.T) {
	require.Regexp(t, `^[!-~]+:\d+$`, ThisProcess())
	require.Empty(t, OwnerFlaw(ThisProcess()))
	require.Equal(t, "web-3:4711", ofProcess("web-3", 4711))
	longest := strings.Repeat("h", 64)
	require.Equal(t, longest+":4194304", ofProcess(longest, 1<<22))
	for _, host := range []string{"", "my host", "héte", "a\nb", strings.Repeat("h", MaxOwner)} {
		require.Equal(t, "?:4711", ofProcess(host, 4711), "%q", host)
	}
}

// The goal: what would break a log line is a flaw, and the flaw is named.
func TestOwner_Flaws(t *testing.T) {
	for owner, says := range map[string]string{
		strings.Repeat("x", MaxOwner+1): "longer than 80 bytes",
		"two words":                     "no ASCII letter",
		"line\n":                        "no ASCII letter",
		"tab\t":                         "no ASCII letter",
		"\x1b[31m":                      "no ASCII letter",
		"é":                             "no ASCII letter",
		"\xff":                          "no ASCII letter",
	} {
		require.Contains(t, OwnerFlaw(owner), says, "%q", owner)
	}
}

// The goal: no token costs an allocation of its own.
func TestSource_AllocatesNothing(t *testing.T) {
	var s Tokens
	s.Next()
	require.Less(t, testing.AllocsPerRun(1000, func() { _ = s.Next() }), 1.0)
}

// The goal: a value is divided into the token, with or without an owner, and the character of the
// node, and each of 64 nodes has another one, which is never '='.
func TestSplit_DividesWhatTokensAndNodesMake(t *testing.T) {
	var s Tokens
	seen := map[byte]bool{}
	for node := range 64 {
		char := NodeChar(node)
		require.Regexp(t, `^[A-Za-z0-9_-]$`, string(char))
		require.False(t, seen[char])
		seen[char] = true
		for _, owner := range []string{"", "a", "@", "a@b", "web-3:4711"} {
			want := made(&s, owner)
			token, found := SplitValue(want + string(char))
			require.Equal(t, want, token)
			require.Equal(t, char, found)
			token, found = SplitValue(Marked(want) + string(char))
			require.Equal(t, want, token, "kept")
			require.Equal(t, char, found)
			require.NotEqual(t, want, Marked(want))
			require.False(t, isToken(Marked(want)), "a token may end with the mark")
			require.Equal(t, owner, OwnerOf(token))
		}
	}
}

// The goal: the values of other clients are kept whole, and so are values that look a little like
// ours.
func TestSplit_KeepsOthersWhole(t *testing.T) {
	const own = "0sB2c5mXc0JkSmqjHqTAfGTxDYo"
	for _, value := range []string{
		"", "A", "token", own, own[:26] + "pA", own + "=", own + "AA", own + ":aA", own + "@A",
		own + "@a=", own + "@a  b", own + " ", own + "  A", own + "@ A",
		own + "@a bA", "\n" + own[1:] + "A", "\r\n" + own[2:] + "A",
		"5rv2cYxKGkOQNyN7jTDFkg==", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", // standard base64
		strings.Repeat("0f", 16), strings.Repeat("0f", 20),
		"d7a7c1a0-6d0b-4f0b-9c0d-0123456789ab", strings.Repeat("x", 256),
		own + "@" + strings.Repeat("x", MaxOwner+1) + "A",
	} {
		token, node := SplitValue(value)
		require.Equal(t, value, token)
		require.Zero(t, node, "%q", value)
	}
}

package ids

import (
	"crypto/rand"
	"encoding/base64"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
)

const (
	// bits is how many random bytes a token has, as the Redlock description asks for.
	bits = 160
	// RandomLength is the length of the random part.
	RandomLength = 27
	separator    = "@"
	// mark is behind the token in the value of a key that Lease.Keep has left. No token ends with
	// it: no owner has it.
	mark = " "
	// alphabet has a character for each node that a client may have: those of URL-safe base64.
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// encoding is strict, so that only one text stands for some bits.
var encoding = base64.RawURLEncoding.Strict()

// Tokens makes the tokens in the values of lock keys. The zero value is ready, and safe for
// concurrent use.
//
// A token is 160 random bits as 27 characters of URL-safe base64, and behind them, if it has an
// owner, a separator and the owner's name. The value of a key on a node is the token and one more
// character, which says which node it is, in the order of the client that set it:
//
//	0sB2c5mXc0JkSmqjHqTAfGTxDYo@web-3:4711    the token
//	0sB2c5mXc0JkSmqjHqTAfGTxDYo@web-3:4711A   the value on the first node
//	0sB2c5mXc0JkSmqjHqTAfGTxDYo@web-3:4711B   the value on the second
//	0sB2c5mXc0JkSmqjHqTAfGTxDYo@web-3:4711 B  there, when Lease.Keep has left the key
//
// So one server has one vote, whatever leads to it. If two names of a client lead to one server,
// its keys have the value of one name. The server refuses what comes by the other name: an acquire,
// an extension and a release.
//
// The random bits alone make a token unique. Other clients compare values as a whole, so the rest
// changes nothing for them. Their own values have no owner and no node. They are shorter or longer,
// or have no separator at its place, because it is in no alphabet that they use.
type Tokens struct{ generators sync.Pool } // of *mathrand.ChaCha8

// Next returns the random part of a token that no lock ever had: from ChaCha8, seeded from the
// operating system.
func (s *Tokens) Next() (text [RandomLength]byte) {
	g, _ := s.generators.Get().(*mathrand.ChaCha8)
	if g == nil {
		var seed [32]byte
		_, _ = rand.Read(seed[:]) // never fails
		g = mathrand.NewChaCha8(seed)
	}
	var raw [bits / 8]byte
	_, _ = g.Read(raw[:]) // never fails
	s.generators.Put(g)
	encoding.Encode(text[:], raw[:])
	return text
}

// OwnerSuffix returns what is behind the random part of a token with this owner; "" for none.
func OwnerSuffix(owner string) string {
	if owner == "" {
		return ""
	}
	return separator + owner
}

// NodeChar returns the last character of values on the node with this index, which is below 64.
func NodeChar(node int) byte { return alphabet[node] }

// Marked returns the token with the mark of keys that are kept.
func Marked(token string) string { return token + mark }

// SplitValue divides the value of a key into the token, without a mark, and the character of the
// node. The node is 0 if another client made the value: then all of it is the token.
func SplitValue(value string) (token string, node byte) {
	if value == "" || strings.IndexByte(alphabet, value[len(value)-1]) < 0 {
		return value, 0
	}
	last := len(value) - 1
	if token = strings.TrimSuffix(value[:last], mark); !isToken(token) {
		return value, 0
	}
	return token, value[last]
}

// isToken reports whether a text has the form of a token.
func isToken(text string) bool {
	return len(text) == RandomLength && isRandom(text) || OwnerOf(text) != ""
}

// OwnerOf returns the owner in a token; "" if it has none, or if another client made it.
func OwnerOf(token string) string {
	if len(token) <= RandomLength+len(separator) ||
		token[RandomLength:RandomLength+len(separator)] != separator {
		return ""
	}
	owner := token[RandomLength+len(separator):]
	if !isRandom(token[:RandomLength]) || OwnerFlaw(owner) != "" {
		return ""
	}
	return owner
}

// isRandom reports whether a text can be the random part of a token.
func isRandom(text string) bool {
	var raw [bits / 8]byte
	n, err := encoding.Decode(raw[:], []byte(text)) // which ignores line breaks
	return err == nil && n == len(raw)
}

// MaxOwner is the most bytes of an owner. Each of them goes to each node with each lock, and twice
// if the lock is released. The name of a host on Linux, 64 bytes at most, and a process id fit.
const MaxOwner = 80

// OwnerFlaw returns what is wrong with an owner that is not empty; "" if nothing is. Each byte is a
// visible character of ASCII. So an owner fits into any log line, and is one word there.
func OwnerFlaw(owner string) string {
	if len(owner) > MaxOwner {
		return "is longer than " + strconv.Itoa(MaxOwner) + " bytes"
	}
	for i := range len(owner) {
		if owner[i] <= ' ' || owner[i] > '~' {
			return "has a character that is no ASCII letter, digit or punctuation"
		}
	}
	return ""
}

// ThisProcess returns the owner that stands for this process: the name of its host, and its id. If
// the host has no name that an owner can have, it is "?".
func ThisProcess() string {
	host, _ := os.Hostname()
	return ofProcess(host, os.Getpid())
}

func ofProcess(host string, pid int) string {
	id := ":" + strconv.Itoa(pid)
	if host == "" || OwnerFlaw(host+id) != "" {
		return "?" + id
	}
	return host + id
}

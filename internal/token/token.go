// Package token makes the values of lock keys, and reads in them who has the lock.
//
// A token is 160 random bits as 27 characters of URL-safe base64, and behind them, if it has an
// owner, a separator and the owner's name:
//
//	0sB2c5mXc0JkSmqjHqTAfGTxDYo@web-3:4711
//
// The random bits alone make it unique. Other clients compare tokens as a whole, so the owner
// changes nothing for them. Their own tokens yield no owner: they are shorter, or have no separator
// at this place, because it is in no alphabet that they use.
package token

import (
	"crypto/rand"
	"encoding/base64"
	mathrand "math/rand/v2"
	"sync"
)

const (
	// bits is how many random bytes a token has, as the Redlock description asks for.
	bits = 160
	// Random is the length of the random part.
	Random    = 27
	separator = "@"
)

// encoding is strict, so that only one text stands for some bits.
var encoding = base64.RawURLEncoding.Strict()

// Source makes tokens. The zero value is ready, and safe for concurrent use.
type Source struct{ generators sync.Pool } // of *mathrand.ChaCha8

// Next returns the random part of a token that no lock ever had: from ChaCha8, seeded from the
// operating system.
func (s *Source) Next() (text [Random]byte) {
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

// Suffix returns what is behind the random part of a token with this owner; "" for none.
func Suffix(owner string) string {
	if owner == "" {
		return ""
	}
	return separator + owner
}

// Owner returns the owner in a token; "" if it has none, or if another client made it.
func Owner(token string) string {
	if len(token) <= Random+len(separator) || token[Random:Random+len(separator)] != separator {
		return ""
	}
	var raw [bits / 8]byte
	owner := token[Random+len(separator):]
	if _, err := encoding.Decode(raw[:], []byte(token[:Random])); err != nil || Flaw(owner) != "" {
		return ""
	}
	return owner
}

package endpoint

import (
	"errors"
	"net/url"
	"strings"
)

// badURL is what is wrong with a URL, in words that show nothing of its user and password.
type badURL string

func (f badURL) Error() string { return string(f) }

// explain says what is wrong with a URL whose scheme is known, in words of its own. It shows
// nothing of the text: in a broken URL a piece of a password may be anywhere.
func explain(text string, err error) string {
	_, rest, _ := strings.Cut(text, "://")
	var own badURL
	switch at := strings.LastIndex(rest, "@"); {
	case at >= 0 && !escaped(rest[:at]):
		return "in a user or password every character but letters, digits and - . _ ~ " +
			"must be percent-escaped, such as # as %23, % as %25, / as %2F and ? as %3F"
	case errors.As(err, &own):
		return string(own)
	case strings.Contains(err.Error(), "invalid port "):
		return noPort
	}
	return "details are left out, because they may show a password"
}

// noPort is what is wrong with most texts that are no URL.
const noPort = "the port is not a number from 1 to 65535"

// escaped reports whether a URL's parser finds the end of this user and password.
func escaped(userinfo string) bool {
	for i, c := range []byte(userinfo) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-._:~!$&'()*+,;=@", c) >= 0:
		case c == '%' && i+2 < len(userinfo):
			if _, err := url.PathUnescape(userinfo[i : i+3]); err != nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

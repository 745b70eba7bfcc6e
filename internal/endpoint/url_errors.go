package endpoint

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// badURL is what is wrong with a URL, in words that show nothing of its user and password.
type badURL string

func (f badURL) Error() string { return string(f) }

// safeDetail returns what is wrong with a URL whose scheme is known. In a broken URL a piece of a
// password may be anywhere. But if all that is before the last @ is escaped, the password ends
// there.
func safeDetail(text string, err error) string {
	if !strings.ContainsAny(text, "@?#") {
		return fmt.Sprintf(": %q: %v", text, withoutURL(err))
	}
	_, rest, _ := strings.Cut(text, "://")
	at := strings.LastIndex(rest, "@")
	var own badURL
	switch {
	case at >= 0 && !escaped(rest[:at]):
		return ": in a user or password every character but letters, digits and - . _ ~ " +
			"must be percent-escaped, such as # as %23, % as %25, / as %2F and ? as %3F"
	case !errors.As(err, &own) && strings.ContainsAny(rest[at+1:], "?#"):
		return " (details are left out, because they may show a password)"
	}
	return fmt.Sprintf(": %v", withoutURL(err))
}

// withoutURL returns the error without the URL.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

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

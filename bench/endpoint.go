package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// endpoint is one node as the looks at its keys reach it. It reads URLs as the Client does.
type endpoint struct {
	network, address   string
	username, password string
	db                 int
	tls                *tls.Config // nil: no TLS
}

// parseEndpoint reads redis://user:password@host:port/db, rediss://, unix:///path?db=1 or
// host:port. Its errors hold neither user nor password.
func parseEndpoint(text string) (endpoint, error) {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, errors.New("not a URL") // err quotes pieces of it
	}
	e := endpoint{username: u.User.Username()}
	e.password, _ = u.User.Password()
	db := u.Query().Get("db")
	switch u.Scheme {
	case "unix":
		e.network, e.address = "unix", u.Path
		if u.Path == "" {
			return endpoint{}, errors.New("no path to a socket")
		}
	case "redis", "rediss", "valkey", "valkeys":
		if e.network = "tcp"; u.Host == "" {
			return endpoint{}, errors.New("no host")
		}
		e.address = net.JoinHostPort(orDefault(u.Hostname(), "localhost"), orDefault(u.Port(),
			"6379"))
		db = orDefault(db, strings.TrimPrefix(u.Path, "/"))
	default:
		return endpoint{}, fmt.Errorf("unknown scheme %q", u.Scheme)
	}
	if db != "" {
		if e.db, err = strconv.Atoi(db); err != nil || e.db < 0 {
			return endpoint{}, errors.New("the database is not a number")
		}
	}
	if u.Scheme == "rediss" || u.Scheme == "valkeys" {
		e.tls = &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: u.Hostname(),
			InsecureSkipVerify: skipVerify(u),
		}
	}
	return e, nil
}

// skipVerify tells whether the URL waives the check of the server's certificate.
func skipVerify(u *url.URL) bool {
	if !u.Query().Has("skip_verify") {
		return false
	}
	text := u.Query().Get("skip_verify")
	skip, _ := strconv.ParseBool(text)
	return skip || text == ""
}

func orDefault(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// redacted is a node's URL without what stands before the host, and without parameters: either may
// be a password, even where it is no valid URL.
func redacted(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		scheme, _, ok := strings.Cut(text[:at], "://")
		if ok {
			scheme += "://"
		} else {
			scheme = ""
		}
		if strings.ContainsAny(text[:at], "?#") { // what is behind the @ may be of a parameter
			return scheme + "***"
		}
		text = scheme + "***" + text[at:]
	}
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end] + "?***"
	}
	return text
}

package check

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Endpoint is how the checks reach one node. It is made from a URL, which means here what it means
// to a Client.
type Endpoint struct {
	network, address   string
	username, password string
	db                 int
	tls                *tls.Config // nil: no TLS
}

// ParseEndpoint reads redis://user:password@host:port/db, rediss://, unix:///path?db=1 or
// host:port. Its errors hold neither user nor password.
func ParseEndpoint(text string) (Endpoint, error) {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return Endpoint{}, errors.New("not a URL") // err quotes pieces of it
	}
	e := Endpoint{username: u.User.Username()}
	e.password, _ = u.User.Password()
	db := u.Query().Get("db")
	switch u.Scheme {
	case "unix":
		e.network, e.address = "unix", u.Path
		if u.Path == "" {
			return Endpoint{}, errors.New("no path to a socket")
		}
	case "redis", "rediss", "valkey", "valkeys":
		if e.network = "tcp"; u.Host == "" {
			return Endpoint{}, errors.New("no host")
		}
		e.address = net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), cmp.Or(u.Port(), "6379"))
		db = cmp.Or(db, strings.TrimPrefix(u.Path, "/"))
	default:
		return Endpoint{}, fmt.Errorf("unknown scheme %q", u.Scheme)
	}
	if db != "" {
		if e.db, err = strconv.Atoi(db); err != nil || e.db < 0 {
			return Endpoint{}, errors.New("the database is not a number")
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

// Address returns host:port, or the path of a socket.
func (e Endpoint) Address() string { return e.address }

// skipVerify reports whether the URL waives the check of the server's certificate.
func skipVerify(u *url.URL) bool {
	if !u.Query().Has("skip_verify") {
		return false
	}
	text := u.Query().Get("skip_verify")
	skip, _ := strconv.ParseBool(text)
	return skip || text == ""
}

package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// secondURL finds a second URL in an entry.
var secondURL = regexp.MustCompile(`,\s*(redis|rediss|unix)://`)

// checkText refuses what users write and no parser explains. text has a scheme, or at least "://".
func checkText(text string) error {
	scheme, rest, _ := strings.Cut(text, "://")
	if s := strings.ToLower(scheme); s != "redis" && s != "rediss" && s != "unix" {
		if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") != "" || s == "" {
			return errors.New("has no scheme that is known; use redis, rediss or unix")
		}
		return fmt.Errorf("has the scheme %.16s; use redis, rediss or unix", scheme)
	}
	if secondURL.MatchString(rest) {
		return errors.New("has more than one URL: give each master an entry of its own")
	}
	user, host := "", rest
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, host = rest[:at], rest[at+1:]
	}
	host, _, _ = strings.Cut(host, "/")
	if written := bracketed(host); written != "" && escaped(user) {
		return fmt.Errorf("has an IPv6 address without brackets: write %s", written)
	}
	return nil
}

// bracketed returns how to write an IPv6 address that has no brackets. It returns "" if host is
// none.
func bracketed(host string) string {
	isIPv6 := func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && a.Is6() && a.Zone() == ""
	}
	if last := strings.LastIndex(host, ":"); last > 0 && isIPv6(host[:last]) &&
		IsPort(host[last+1:]) {
		return net.JoinHostPort(host[:last], host[last+1:])
	}
	if isIPv6(host) {
		return net.JoinHostPort(host, "6379")
	}
	return ""
}

// checkURL refuses what would be ignored: parameters that mean nothing here, and a fragment,
// which is most likely a piece of a password with an unescaped #.
func checkURL(u *url.URL) error {
	if err := checkParameters(u.RawQuery); err != nil {
		return err
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch host := u.Hostname(); {
	case u.Fragment != "":
		return badURL("it has a # that is not written as %23")
	case err != nil:
		return badURL("a parameter has a % or ; that is not written as %25 or %3B")
	case sentinelParameter(query) != "" && (u.Scheme == "unix" || !query.Has("master_set")):
		return badURL(sentinelParameter(query) + " is for a master by Sentinel: give redis:// or " +
			"rediss://, " +
			"the address of a sentinel, and master_set")
	case u.Scheme == "unix":
		return nil
	case host == "":
		return badURL("it has no host")
	case !strings.HasPrefix(u.Host, "[") && strings.ContainsAny(host, ":, "):
		return badURL("it has more than one host or port: give each master an entry of its own")
	}
	return nil
}

// checkParameters refuses an unknown parameter. It shows a name that looks like one, if it is no
// piece of a password.
func checkParameters(query string) error {
	const are = "; db, client_name and skip_verify are known, and for a master by Sentinel addr, " +
		"master_set, sentinel_user, sentinel_password and sentinel_tls"
	behind := false // a password was seen
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		isName := strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz_") == ""
		switch name {
		case "", "db", "client_name", "skip_verify", "addr", "master_set", "sentinel_tls":
			continue
		case "sentinel_user", "sentinel_password":
			behind = behind || name == "sentinel_password"
			if strings.Contains(value, "+") {
				return badURL(name + " has a + that is not written as %2B, or a space as %20")
			}
			continue
		}
		switch { // those behind the password may be pieces of it
		case behind:
			return badURL("unknown parameter behind sentinel_password, " +
				"which may be a piece of it: write & as %26")
		case !isName:
			return badURL("unknown parameter" + are)
		}
		return badURL(fmt.Sprintf("unknown parameter %.32s%s", name, are))
	}
	return nil
}

// IsPort reports whether the text is a number that a port can have.
func IsPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

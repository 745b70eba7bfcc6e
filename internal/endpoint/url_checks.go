package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// secondURL finds a second URL in an entry.
var secondURL = regexp.MustCompile(`,\s*(redis|rediss|valkey|valkeys|unix)://`)

// schemes are those that are known.
const schemes = "use redis, rediss, valkey, valkeys or unix"

// checkText refuses what users write and no parser explains. text has a scheme, or at least "://".
func checkText(text string) error {
	scheme, rest, _ := strings.Cut(text, "://")
	switch s := strings.ToLower(scheme); s {
	case "redis", "rediss", "valkey", "valkeys", "unix":
	default:
		if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") != "" || s == "" {
			return errors.New("has no scheme that is known; " + schemes)
		}
		return fmt.Errorf("has the scheme %.16s; %s", scheme, schemes)
	}
	if secondURL.MatchString(rest) {
		return errors.New("has more than one URL: give each master an entry of its own")
	}
	user, host := "", rest
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, host = rest[:at], rest[at+1:]
	}
	host, _, _ = strings.Cut(host, "/")
	if isIPv6(host) && escaped(user) {
		return errors.New("has an IPv6 address without brackets: write it such as [::1]:6379")
	}
	return nil
}

// isIPv6 reports whether the host is an IPv6 address without brackets, maybe with a port.
func isIPv6(host string) bool {
	without := host[:max(0, strings.LastIndex(host, ":"))]
	return slices.ContainsFunc([]string{host, without}, func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && a.Is6() && a.Zone() == ""
	})
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
	case query.Has("cluster") && u.Scheme == "unix":
		return badURL("cluster is for redis:// or rediss://")
	case sentinelParameter(query) != "" && (u.Scheme == "unix" || !query.Has("master_set")) &&
		(!query.Has("cluster") || sentinelParameter(query) != "addr"):
		return badURL(sentinelParameter(query) + " is for a master by Sentinel: give redis:// or " +
			"rediss://, " +
			"the address of a sentinel, and master_set")
	case u.Scheme == "unix":
		return nil
	case host == "":
		return badURL("it has no host")
	case !strings.HasPrefix(u.Host, "[") && strings.ContainsAny(host, ":, ="):
		return badURL("it is more than one host and port: give each master an entry of its own")
	}
	return nil
}

// checkParameters refuses an unknown parameter. Its name may be a piece of a password.
func checkParameters(query string) error {
	for i, pair := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "", "db", "client_name", "skip_verify", "addr", "cluster", "master_set",
			"sentinel_tls":
		case "sentinel_user", "sentinel_password":
			if strings.Contains(value, "+") {
				return badURL(name + " has a + that is not written as %2B, or a space as %20")
			}
		default:
			return badURL(fmt.Sprintf("its parameter number %d is unknown (an & in a password is "+
				"written as %%26); db, client_name and skip_verify are known, for a Redis Cluster "+
				"cluster and addr, and for a master by Sentinel addr, master_set, sentinel_user, "+
				"sentinel_password and sentinel_tls", i+1))
		}
	}
	return nil
}

// IsPort reports whether the text is a number that a port can have.
func IsPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

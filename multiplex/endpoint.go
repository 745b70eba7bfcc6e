package multiplex

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// endpoint is one node of the configuration, or one server to dial.
type endpoint struct {
	name    string // what Nodes and errors show, without user and password
	network string // "tcp" or "unix"
	address string // to dial; for a node by Sentinel that of the first sentinel
	option  rueidis.ClientOption
	// masterSet is the name of the master at the sentinels, which have these endpoints. They are ""
	// and nil if the address is the master's own.
	masterSet string
	sentinels []endpoint
}

// identities are what no other node may have: the address, or the master set at each of the
// sentinels.
func (e *endpoint) identities() (all []string) {
	if e.masterSet == "" {
		return []string{e.address}
	}
	for _, s := range e.sentinels {
		all = append(all, e.masterSet+"@"+s.address)
	}
	return all
}

// withAddress returns the endpoint of the master that sentinels have named.
func (e *endpoint) withAddress(address string) *endpoint {
	master := *e
	master.address = address
	if secure := e.option.TLSConfig; secure != nil && secure.ServerName == "" {
		master.option.TLSConfig = withServerName(secure, address)
	}
	return &master
}

// withServerName returns a TLS configuration for the server at the address.
func withServerName(secure *tls.Config, address string) *tls.Config {
	secure = secure.Clone()
	secure.ServerName, _, _ = net.SplitHostPort(address)
	return secure
}

// parse reads one node of the configuration. Its errors never contain the user or password.
func parse(text string, tlsConfig *tls.Config) (endpoint, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return endpoint{}, errors.New("is empty; give a URL such as redis://host:6379")
	}
	bare := !strings.Contains(text, "://")
	if bare {
		text = "redis://" + text
	}
	if err := checkText(text); err != nil {
		return endpoint{}, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("is not a URL such as redis://user:password@host:6379%s",
			safeDetail(text, err))
	}
	if err := checkURL(u); err != nil {
		return endpoint{}, fmt.Errorf("is not usable%s", safeDetail(text, err))
	}
	if u.Path == "/" { // rueidis takes it for an empty number
		u.Path = ""
		text = u.String()
	}
	option, err := rueidis.ParseURL(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("is not usable%s", safeDetail(text, err))
	}
	if option.SelectDB < 0 {
		return endpoint{}, fmt.Errorf("is not usable%s",
			safeDetail(text, badURL("the database is negative")))
	}
	e := endpoint{network: "tcp", address: strings.ToLower(option.InitAddress[0]), option: option}
	if u.Scheme == "unix" {
		e.network, e.address = "unix", option.InitAddress[0]
	} else if _, port, _ := net.SplitHostPort(e.address); !isPort(port) {
		bad := badURL("the port is not a number from 1 to 65535")
		return endpoint{}, fmt.Errorf("is not usable%s", safeDetail(text, bad))
	}
	if e.address == "" {
		return endpoint{}, errors.New("has no path; give unix:///path/to/socket")
	}
	e.name = e.address
	if tlsConfig != nil && (bare || option.TLSConfig != nil) {
		skip := option.TLSConfig != nil && option.TLSConfig.InsecureSkipVerify
		e.option.TLSConfig = tlsConfig.Clone()
		e.option.TLSConfig.InsecureSkipVerify = skip || tlsConfig.InsecureSkipVerify
	}
	if u.Query().Has("master_set") {
		if err := e.bySentinel(u, tlsConfig); err != nil {
			return endpoint{}, fmt.Errorf("is not usable%s", safeDetail(text, err))
		}
	} else if secure := e.option.TLSConfig; secure != nil && secure.ServerName == "" {
		e.option.TLSConfig = withServerName(secure, e.address)
	}
	e.configure()
	return e, nil
}

// badURL is what is wrong with a URL, in words that show nothing of its user and password.
type badURL string

func (f badURL) Error() string { return string(f) }

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
		isPort(host[last+1:]) {
		return net.JoinHostPort(host[:last], host[last+1:])
	}
	if isIPv6(host) {
		return net.JoinHostPort(host, "6379")
	}
	return ""
}

// checkURL refuses what rueidis would ignore: parameters that mean nothing here, and a fragment,
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

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

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

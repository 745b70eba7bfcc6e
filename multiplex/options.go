package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	// window is the most flushes under way on one node. Together with the keeper's own commands it
	// must stay below the ring, because rueidis blocks without regard to any context when its ring
	// is full.
	maxFlushes = 4
	ringScale  = 6 // a ring of 2^6 = 64
	// dialTimeout bounds each part of connecting: dialling with TLS, the restart guard, and the
	// first commands of rueidis.
	dialTimeout    = time.Second
	connectTimeout = 3 * dialTimeout
	// dialGrace is how long a Config.Dial may take to return after its context has ended.
	dialGrace = 100 * time.Millisecond
	// A connection without any reply for silenceGap is probed, and given up when the probe is
	// unanswered for probeTimeout: so a node that hangs is noticed after 1.5 to 2 seconds. Callers
	// do not wait for that, since each attempt has its own limit; and a server that is busy for a
	// second is not worth a reconnect.
	silenceGap   = 500 * time.Millisecond
	probeTimeout = time.Second
	bufferSize   = 128 << 10
)

// endpoint is one node of the configuration, or one server to dial.
type endpoint struct {
	name    string // what Nodes and errors show, without user and password
	network string // "tcp" or "unix"
	address string // to dial; of a node by Sentinel that of the first sentinel
	option  rueidis.ClientOption
	// masterSet is the name of the master at the sentinels, which have these endpoints; "" and nil
	// if the address is the master's own.
	masterSet string
	sentinels []endpoint
}

// keys are what no other node may have: the address, or the master set at each of the sentinels.
func (e *endpoint) identities() (all []string) {
	if e.masterSet == "" {
		return []string{e.address}
	}
	for _, s := range e.sentinels {
		all = append(all, e.masterSet+"@"+s.address)
	}
	return all
}

// at is the endpoint of the master that sentinels have named.
func (e *endpoint) withAddress(address string) *endpoint {
	master := *e
	master.address = address
	if secure := e.option.TLSConfig; secure != nil && secure.ServerName == "" {
		master.option.TLSConfig = withServerName(secure, address)
	}
	return &master
}

// named is a TLS configuration for the server at the address.
func withServerName(secure *tls.Config, address string) *tls.Config {
	secure = secure.Clone()
	secure.ServerName, _, _ = net.SplitHostPort(address)
	return secure
}

// parse reads one node of the configuration. Errors never contain the user or password.
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
	if u.Path == "/" { // which rueidis takes for an empty number
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

// another finds a second URL in an entry.
var secondURL = regexp.MustCompile(`,\s*(redis|rediss|unix)://`)

// understood refuses what users write and no parser explains. text has a scheme, or at least "://".
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

// bracketed is how an IPv6 address is written that has no brackets; "" if host is none.
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

// supported refuses what rueidis would ignore: parameters that mean nothing here, and a fragment,
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

// knownAll refuses an unknown parameter. It shows a name that looks like one, if it is no piece of
// a password.
func checkParameters(query string) error {
	const are = "; db, client_name and skip_verify are known, and for a master by Sentinel addr, " +
		"master_set, sentinel_user, sentinel_password and sentinel_tls"
	behind := false // a password
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
		switch { // those behind it may be pieces of its value
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

// detail is what is wrong with a URL whose scheme is known. In a broken URL a piece of a password
// stands anywhere. But if all that is before the last @ is escaped, the password ends there.
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

// withoutURL is the error without the URL.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// escaped reports whether user and password are such that a URL's parser finds their end.
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

// configure sets how rueidis behaves. The whole of it stands here.
func (e *endpoint) configure() {
	o := &e.option
	// The keeper finds the master: rueidis would keep connections of its own to the sentinels.
	o.Sentinel = rueidis.SentinelOption{}
	o.InitAddress = o.InitAddress[:1]
	// One socket: no cluster probe, one multiplexed connection, and never the pool for large
	// pipelines.
	o.ForceSingleClient = true
	o.PipelineMultiplex = -1
	o.BlockingPipeline = -1
	// In its synchronous mode rueidis closes the connection when a deadline passes; when pipelining
	// it does not.
	o.AlwaysPipelining = true
	// An acquire that was executed and sent again would find its own key and count it as another's.
	o.DisableRetry = true
	// The cache needs CLIENT TRACKING, and nothing here is cached.
	// The keeper turns tracking on for watches: a server that refuses it is still of use.
	o.DisableCache = true
	// CLIENT SETINFO is not known before Redis 7.2.
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	o.RingScaleEachConn = ringScale
	o.ReadBufferEachConn = bufferSize
	o.WriteBufferEachConn = bufferSize
	o.Dialer.KeepAlive = silenceGap
	o.ConnWriteTimeout = probeTimeout
	o.Dialer.Timeout = dialTimeout
	// Not set: ConnLifetime, because it sends commands that are under way once more; MaxFlushDelay,
	// because the pipeline groups by itself.
}

// errNoTLS is about a server that takes the beginning of TLS for that of a command: it waits for
// the rest, answers in clear, or hangs up. Which of them is chance. A server that hangs looks the
// same.
var errNoTLS = errors.New("connected, but no answer to TLS: the server may speak none, and then " +
	"it needs redis://")

// DialFunc opens a connection to a node, or returns an error. ctx ends after a second, or when the
// Mux is closed. A call that does not return then is left behind: the node is down, and is not
// dialled again before the call has returned. The connection that it returns is closed.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dial opens the connection, with TLS where the endpoint has it.
func (e *endpoint) dial(ctx context.Context, dial DialFunc) (net.Conn, error) {
	conn, err := dial(ctx, e.network, e.address)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, errNoResult
	case e.option.TLSConfig == nil:
		return conn, nil
	}
	secure := tls.Client(conn, e.option.TLSConfig)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		var inClear tls.RecordHeaderError
		if errors.As(err, &inClear) || resp.HungUp(err) ||
			errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, errNoTLS
		}
		return nil, err
	}
	return secure, nil
}

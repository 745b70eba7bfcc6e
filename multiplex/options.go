package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	// window is the most flushes under way on one node. Together with the keeper's own commands it must stay below the
	// ring, because rueidis blocks without regard to any context when its ring is full.
	window    = 4
	ringScale = 6 // a ring of 2^6 = 64
	// dialTimeout bounds each part of connecting: dialling with TLS, the restart guard, and the first commands of rueidis.
	dialTimeout    = time.Second
	connectTimeout = 3 * dialTimeout
	// dialGrace is how long a Config.Dial may take to return after its context has ended.
	dialGrace = 100 * time.Millisecond
	// A connection without any reply for silenceGap is probed, and given up when the probe is unanswered for
	// probeTimeout: so a node that hangs is noticed after 1.5 to 2 seconds. Callers do not wait for that, since each attempt
	// has its own limit; and a server that is busy for a second is not worth a reconnect.
	silenceGap   = 500 * time.Millisecond
	probeTimeout = time.Second
	bufferSize   = 128 << 10
)

// endpoint is one node of the configuration.
type endpoint struct {
	network string // "tcp" or "unix"
	address string // without user and password: what Nodes and errors show
	option  rueidis.ClientOption
}

// parse reads one node of the configuration. Errors never contain the user or password.
func parse(text string, tlsConfig *tls.Config) (endpoint, error) {
	if text == "" {
		return endpoint{}, errors.New("is empty; give a URL such as redis://host:6379")
	}
	bare := !strings.Contains(text, "://")
	if bare {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("is not a URL such as redis://user:password@host:6379%s", detail(text, err))
	}
	if err := supported(u); err != nil {
		return endpoint{}, fmt.Errorf("is not usable%s", detail(text, err))
	}
	if u.Path == "/" { // which rueidis takes for an empty number
		u.Path = ""
		text = u.String()
	}
	option, err := rueidis.ParseURL(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("is not usable%s", detail(text, err))
	}
	if option.SelectDB < 0 {
		return endpoint{}, fmt.Errorf("is not usable%s", detail(text, errors.New("the database is negative")))
	}
	e := endpoint{network: "tcp", address: strings.ToLower(option.InitAddress[0]), option: option}
	if u.Scheme == "unix" {
		e.network, e.address = "unix", option.InitAddress[0]
	} else if _, port, _ := net.SplitHostPort(e.address); !isPort(port) {
		return endpoint{}, fmt.Errorf("is not usable%s", detail(text, errors.New("the port is not a number from 1 to 65535")))
	}
	if e.address == "" {
		return endpoint{}, errors.New("has no path; give unix:///path/to/socket")
	}
	if tlsConfig != nil && (bare || option.TLSConfig != nil) {
		skip := option.TLSConfig != nil && option.TLSConfig.InsecureSkipVerify
		e.option.TLSConfig = tlsConfig.Clone()
		e.option.TLSConfig.InsecureSkipVerify = skip || tlsConfig.InsecureSkipVerify
		if e.option.TLSConfig.ServerName == "" {
			e.option.TLSConfig.ServerName, _, _ = net.SplitHostPort(e.address)
		}
	}
	e.configure()
	return e, nil
}

// supported refuses what rueidis would ignore: parameters that mean nothing here, and a fragment, which is most likely a piece of a
// password with an unescaped #.
func supported(u *url.URL) error {
	for name := range u.Query() {
		if name != "db" && name != "client_name" && name != "skip_verify" {
			return fmt.Errorf("unknown parameter %q; db, client_name and skip_verify are known", name)
		}
	}
	switch host := u.Hostname(); {
	case u.Fragment != "":
		return errors.New("it has a # that is not written as %23")
	case u.Scheme == "unix":
		return nil
	case host == "":
		return errors.New("it has no host")
	case !strings.HasPrefix(u.Host, "[") && strings.ContainsAny(host, ":, "):
		return errors.New("it has more than one host or port: give each master an entry of its own")
	}
	return nil
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// detail is what is wrong with a URL, where it can't be a piece of a password: in a broken URL those stand anywhere.
func detail(text string, err error) string {
	if strings.ContainsAny(text, "@?#") {
		return " (details are left out, because they may show a password)"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Sprintf(": %q: %v", text, err)
}

// configure sets how rueidis behaves. The whole of it stands here.
func (e *endpoint) configure() {
	o := &e.option
	// One socket: no cluster probe, one multiplexed connection, and never the pool for large pipelines.
	o.ForceSingleClient = true
	o.PipelineMultiplex = -1
	o.BlockingPipeline = -1
	// In its synchronous mode rueidis closes the connection when a deadline passes; when pipelining it does not.
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
	// Not set: ConnLifetime, because it sends commands that are under way once more; MaxFlushDelay, because the pipeline
	// groups by itself.
}

// errNoTLS is about a server that waits for the rest of a command, which it takes the beginning of TLS for, or that hangs.
var errNoTLS = fmt.Errorf("connected, but no answer to TLS within %v: the server may speak none", dialTimeout)

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
		return nil, errNothing
	case e.option.TLSConfig == nil:
		return conn, nil
	}
	secure := tls.Client(conn, e.option.TLSConfig)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, errNoTLS
		}
		return nil, err
	}
	return secure, nil
}

package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	// DialTimeout bounds each part of connecting: the dial with TLS, and whatever the owner does
	// next on the connection.
	DialTimeout = time.Second
	// LoginTimeout bounds a call of a CredentialsFunc.
	LoginTimeout = 3 * DialTimeout
	// DialGrace is how long one of the user's functions may take to return after its context has
	// ended.
	DialGrace = 100 * time.Millisecond
)

// DialFunc opens a connection to a node, or returns an error. ctx ends after DialTimeout, or when
// the owner is closed. A call that does not return then is abandoned: the node is down, and is not
// dialled again before the call has returned. The connection that it returns is closed.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer opens connections to one server after the other. It has one owner at a time. A DialFunc
// may ignore its context, and a call that hangs blocks its own Dialer alone.
type Dialer struct {
	// Endpoint is the server to dial next.
	Endpoint *Endpoint

	dial  DialFunc // nil for a net.Dialer
	calls userFunc[net.Conn]
}

// errNoResult is the error of a call that returned neither of its results.
var errNoResult = errors.New("Config.Dial returned neither a connection nor an error")

// NewDialer returns a Dialer. All its servers have TLS, or none has. dial is nil for a net.Dialer.
// logger logs a panic of dial, once; it is nil if another Dialer of the same function does.
func NewDialer(e *Endpoint, dial DialFunc, logger *slog.Logger) *Dialer {
	calls := userFunc[net.Conn]{
		name: "Config.Dial", mayHang: "Config.Dial", node: e.Name, logger: logger,
		discard: func(conn net.Conn) { _ = conn.Close() },
	}
	if e.TLS != nil {
		calls.mayHang = "Config.Dial, or TLS on its connection,"
	}
	return &Dialer{Endpoint: e, dial: dial, calls: calls}
}

// Open makes a connection within DialTimeout.
func (d *Dialer) Open(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	e := d.Endpoint
	if d.dial == nil {
		return e.dial(ctx, (&net.Dialer{}).DialContext)
	}
	return d.calls.call(ctx, func(ctx context.Context) (net.Conn, error) {
		return e.dial(ctx, d.dial)
	})
}

// errNoTLS is the error if a server takes the beginning of TLS for that of a command. It waits for
// the rest, answers in clear, or hangs up; which one is chance. A server that hangs looks the same.
var errNoTLS = errors.New("connected, but no answer to TLS: the server may speak none, and then " +
	"it needs redis://")

// dial opens the connection, with TLS if the endpoint has it.
func (e *Endpoint) dial(ctx context.Context, dial DialFunc) (net.Conn, error) {
	conn, err := dial(ctx, e.Network, e.Address)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, errNoResult
	case e.TLS == nil:
		return conn, nil
	}
	secure := tls.Client(conn, e.TLS)
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

// Abort closes a connection without what was not sent yet, and without the closing message of TLS,
// which can block for seconds.
func Abort(conn net.Conn) error {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}

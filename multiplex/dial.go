package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// dialer opens connections to one server after the other. A node has two: the connector owns one,
// and the inspection under way the other. Each sentinel has one, which its goroutine owns.
// Config.Dial may ignore its context: see userFunc. A call that hangs blocks its own dialer alone.
type dialer struct {
	endpoint *endpoint // the server to dial next; what it points to does not change
	dial     DialFunc  // nil for a net.Dialer
	calls    userFunc[net.Conn]
}

// errNoResult is the error of a call that returned neither of its results.
var errNoResult = errors.New("Config.Dial returned neither a connection nor an error")

// newDialer returns a dialer. All its servers have TLS, or none has.
func newDialer(e *endpoint, dial DialFunc, logger *slog.Logger) *dialer {
	calls := userFunc[net.Conn]{
		name: "Config.Dial", mayHang: "Config.Dial", node: e.name, logger: logger,
		discard: func(conn net.Conn) { _ = conn.Close() },
	}
	if e.option.TLSConfig != nil {
		calls.mayHang = "Config.Dial, or TLS on its connection,"
	}
	return &dialer{endpoint: e, dial: dial, calls: calls}
}

// open makes a connection within dialTimeout.
func (d *dialer) open(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	e := d.endpoint
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

// DialFunc opens a connection to a node, or returns an error. ctx ends after a second, or when the
// Mux is closed. A call that does not return then is abandoned: the node is down, and is not
// dialled again before the call has returned. The connection that it returns is closed.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dial opens the connection, with TLS if the endpoint has it.
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

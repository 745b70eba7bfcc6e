package multiplex

import (
	"context"
	"errors"
	"log/slog"
	"net"
)

// dialer opens connections to one server after the other. A node has two: one is owned by the
// keeper, and one by the inspection under way. Each sentinel has one, which its goroutine owns.
// Config.Dial may ignore its context: see outside. A call that was left holds up its dialer alone.
type dialer struct {
	endpoint *endpoint // the server to dial next; what it points to does not change
	dial     DialFunc  // nil for a net.Dialer
	calls    userFunc[net.Conn]
}

// errNothing is the error of a call that returned neither of its results.
var errNoResult = errors.New("Config.Dial returned neither a connection nor an error")

// newDialer returns a dialer. Its servers have all TLS, or none.
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

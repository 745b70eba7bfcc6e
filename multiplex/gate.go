package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// errGate is the error of a command that found no connection: it was not sent.
var errGate = errors.New("not connected")

// gate decides who may open a connection. rueidis dials when a command finds none, with the context of whoever came
// first and without any delay between tries. Here only the keeper may dial, with a context that carries its ticket; every
// other command fails at once with errGate, and was not sent.
type gate struct {
	endpoint *endpoint
	dialer   DialFunc
	closed   func()                       // told when an open connection is closed, by whomever
	changed  func([]rueidis.RedisMessage) // told of keys that were changed; nil for all
}

// dialError is the error of a connection that was never open: what should have used it was not sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// ticket is the keeper's permission to dial, and tells whether it was used and whether the connection broke the protocol.
type ticket struct {
	used  bool
	fault atomic.Pointer[error]
}

type ticketKey struct{}

// open is rueidis' dial hook.
func (g *gate) open(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	t, ok := ctx.Value(ticketKey{}).(*ticket)
	if !ok {
		return nil, errGate
	}
	t.used = true
	conn, err := g.endpoint.dial(ctx, g.dialer)
	if err != nil {
		return nil, &dialError{err}
	}
	return newCheckedConn(&watchedConn{Conn: conn, closed: g.closed}, t), nil
}

// watchedConn tells when it is closed. rueidis closes a connection that broke before it tells anybody else.
type watchedConn struct {
	net.Conn
	once   sync.Once
	closed func()
}

// Close drops what was not sent yet: a command that was given up must not reach the server later, behind the release
// that takes it back on the next connection. It also leaves out the farewell of TLS, which can block for seconds while
// every caller waits.
func (c *watchedConn) Close() error {
	conn := c.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	err := conn.Close()
	c.once.Do(c.closed)
	return err
}

// client returns a rueidis client without a connection.
func (g *gate) client() (rueidis.Client, error) {
	option := g.endpoint.option
	option.DialCtxFn = g.open
	option.OnInvalidations = g.changed
	client, err := rueidis.NewClient(option)
	if client == nil {
		return nil, err
	}
	return client, nil // err is errGate: nothing may dial yet
}

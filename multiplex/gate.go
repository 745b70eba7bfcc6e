package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/redis/rueidis"
)

// errGate is the error of a command that found no connection: it was not sent.
var errGate = errors.New("not connected")

// gate decides who may open a connection, and which one may be used. rueidis dials when a command
// finds none, with the context of whoever came first and without any delay between tries. Here only
// the keeper may dial, with a context that carries its ticket; every other command fails at once
// with errGate, and was not sent. But commands that come while the keeper dials join it inside
// rueidis, so the restart guard stands here as well, before rueidis has the connection.
type gate struct {
	dialer    *dialer
	admission *admission
	opened    func(*line)                  // told of each connection before rueidis has it
	closed    func()                       // told when an open connection is closed, by whomever
	changed   func([]rueidis.RedisMessage) // told of keys that were changed; nil for all
}

// dialError is the error of a connection that was never open: what should have used it was not
// sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// ticket is the keeper's permission to dial, and tells whether it was used and whether the
// connection broke the protocol.
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
	conn, err := g.dialer.open(ctx)
	if err != nil {
		return nil, &dialError{err}
	}
	l := &line{Conn: conn, address: g.dialer.endpoint.address}
	l.closed = func() {
		g.admission.servers.close(l)
		g.closed()
	}
	if l.runID, err = g.admission.admit(ctx, l); err != nil {
		_ = l.Close()
		return nil, &dialError{err}
	}
	g.opened(l)
	return resp.NewCheckedConn(l, func(err error) { t.fault.Store(&err) }), nil
}

// client returns a rueidis client without a connection.
func (g *gate) client() (rueidis.Client, error) {
	option := g.dialer.endpoint.option
	option.DialCtxFn = g.open
	option.OnInvalidations = g.changed
	client, err := rueidis.NewClient(option)
	if client == nil {
		return nil, err
	}
	return client, nil // err is errGate: nothing may dial yet
}

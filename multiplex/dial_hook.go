package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/redis/rueidis"
)

// errGate is the error of a command that found no connection: it was not sent.
var errNotConnected = errors.New("not connected")

// gate decides who may open a connection, and which one may be used. rueidis dials when a command
// finds none, with the context of whoever came first and without any delay between tries. Here only
// the keeper may dial, with a context that carries its ticket; every other command fails at once
// with errGate, and was not sent. But commands that come while the keeper dials join it inside
// rueidis, so the restart guard stands here as well, before rueidis has the connection.
type dialHook struct {
	dialer       *dialer
	guard        *restartguard.Guard
	setup        func(*nodeConn) []resp.Step  // what is done first on a connection
	onConn       func(*nodeConn)              // told of each connection before rueidis has it
	onClose      func()                       // told when an open connection is closed, by whomever
	onInvalidate func([]rueidis.RedisMessage) // told of keys that were changed; nil for all
}

// dialError is the error of a connection that was never open: what should have used it was not
// sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// ticket is the keeper's permission to dial, and tells whether it was used and whether the
// connection broke the protocol.
type dialPermit struct {
	used        bool
	protocolErr atomic.Pointer[error]
}

type permitKey struct{}

// open is rueidis' dial hook.
func (g *dialHook) dial(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	t, ok := ctx.Value(permitKey{}).(*dialPermit)
	if !ok {
		return nil, errNotConnected
	}
	t.used = true
	conn, err := g.dialer.open(ctx)
	if err != nil {
		return nil, &dialError{err}
	}
	l := &nodeConn{Conn: conn, address: g.dialer.endpoint.address}
	l.onClose = func() {
		g.guard.ConnClosed(l)
		g.onClose()
	}
	if err := g.admit(ctx, l); err != nil {
		_ = l.Close()
		return nil, &dialError{err}
	}
	g.onConn(l)
	return newCheckedConn(l, t), nil
}

// admit makes the handshake on a new connection, before anything else can use it. The error is why
// the connection must not be used.
func (g *dialHook) admit(ctx context.Context, l *nodeConn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	l.server, err = g.guard.Admit(ctx, l, g.setup(l))
	l.movedAt = l.server.Since
	if errors.Is(err, resp.ErrUnanswered) && !g.guard.Answered() &&
		g.dialer.endpoint.option.TLSConfig == nil {
		return fmt.Errorf("%w; the client came without TLS: if the server wants it, use rediss://",
			err)
	}
	return err
}

// client returns a rueidis client without a connection.
func (g *dialHook) client() (rueidis.Client, error) {
	option := g.dialer.endpoint.option
	option.DialCtxFn = g.dial
	option.OnInvalidations = g.onInvalidate
	client, err := rueidis.NewClient(option)
	if client == nil {
		return nil, err
	}
	return client, nil // err is errGate: nothing may dial yet
}

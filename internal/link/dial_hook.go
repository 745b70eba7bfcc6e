package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/keepalive"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/redis/rueidis"
)

// ErrNotConnected is the error of a command that found no connection: it was not sent.
var ErrNotConnected = errors.New("not connected")

// dialHook decides who may open a connection, and which one may be used. rueidis dials when a
// command finds none, with the context of the command that came first and without any delay between
// tries. Here only the connector may dial, with a context that carries its permit. Every other
// command fails at once with ErrNotConnected, and was not sent. But commands that come while the
// connector dials join it inside rueidis. So the restart guard is here too, before rueidis has the
// connection.
type dialHook struct {
	dialer       *endpoint.Dialer
	guard        *guard.Guard
	handshake    func(*Conn) []resp.Step      // returns what is done first on a connection
	onConn       func(*Conn)                  // takes each connection before rueidis has it
	onClose      func()                       // called when an open connection is closed
	onInvalidate func([]rueidis.RedisMessage) // takes the keys that were changed; nil for all
}

// dialError is the error of a connection that was never open: what should have used it was not
// sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialPermit is the connector's permission to dial. It notes whether it was used, why there is no
// connection, and whether the connection broke the protocol. rueidis hides the second if the
// context has ended.
type dialPermit struct {
	used        bool
	dialErr     error
	protocolErr atomic.Pointer[error]
}

type permitKey struct{}

// dial is rueidis' dial hook.
func (h *dialHook) dial(
	ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config,
) (net.Conn, error) {
	t, ok := ctx.Value(permitKey{}).(*dialPermit)
	if !ok {
		return nil, ErrNotConnected
	}
	t.used = true
	conn, err := h.dialer.Open(ctx)
	if err != nil {
		if e := h.dialer.Endpoint; e.MasterSet != "" {
			err = fmt.Errorf("the sentinels name %s as the master: %w", e.Address, err)
		}
		t.dialErr = &dialError{err}
		return nil, t.dialErr
	}
	c := &Conn{Conn: conn, Address: h.dialer.Endpoint.Address, onClose: h.onClose}
	if err := h.admit(ctx, c); err != nil {
		_ = c.Close()
		t.dialErr = &dialError{err}
		return nil, t.dialErr
	}
	c.Trips = trip.NewConn(c, func(err error) { t.protocolErr.Store(&err) })
	c.keepAlive = keepalive.New(c.Trips, SilenceGap, ProbeTimeout, c.giveUp)
	h.onConn(c)
	return c.Trips, nil
}

// admit makes the handshake on a new connection, before anything else can use it. The error is why
// the connection must not be used.
func (h *dialHook) admit(ctx context.Context, c *Conn) (err error) {
	c.Server, err = h.guard.Admit(ctx, c, h.handshake(c))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return h.dialer.TimedOut()
	case errors.Is(err, resp.ErrUnanswered) && !h.guard.Answered() &&
		h.dialer.Endpoint.TLS == nil:
		return fmt.Errorf("%w: is it Redis, and, if it is a proxy, is its server up? Or the client "+
			"came without TLS: if the server wants it, use rediss://", err)
	}
	return err
}

// client returns a rueidis client without a connection.
func (h *dialHook) client() (rueidis.Client, error) {
	option := clientOption(h.dialer.Endpoint)
	option.DialCtxFn = h.dial
	option.OnInvalidations = h.onInvalidate
	client, err := rueidis.NewClient(option)
	if client == nil {
		return nil, err
	}
	return client, nil // err is ErrNotConnected: nothing may dial yet
}

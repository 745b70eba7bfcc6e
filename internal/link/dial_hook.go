package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/lockpipe/lockpipe/internal/keepalive"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
)

// ErrNotConnected is the error of a command that found no connection: it was not sent.
var ErrNotConnected = errors.New("not connected")

// dialPermit is the connector's permission to dial. It notes whether it was used, and why there is
// no connection: rueidis hides that if the context has ended.
type dialPermit struct {
	using   context.Context // ends when the server must be left
	used    bool
	dialErr error
}

type permitKey struct{}

// dial is rueidis' dial hook. It decides who may open a connection, and which one may be used.
// rueidis dials when a command finds none, with the context of the command that came first and
// without any delay between tries. Here only the connector may dial, with a context that carries
// its permit. Every other command fails at once with ErrNotConnected, and was not sent. But
// commands that come while the connector dials join it inside rueidis. So the restart guard is here
// too, before rueidis has the connection.
func (l *Link) dial(
	ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config,
) (net.Conn, error) {
	t, ok := ctx.Value(permitKey{}).(*dialPermit)
	if !ok {
		return nil, ErrNotConnected
	}
	t.used = true
	conn, err := l.dialer.Open(ctx)
	if err != nil {
		t.dialErr = err
		return nil, err
	}
	c := &Conn{Conn: conn, Address: l.dialer.Endpoint.Address, onClose: l.onClose}
	if err := l.admit(ctx, c); err != nil {
		_ = c.Close()
		t.dialErr = err
		return nil, err
	}
	c.Trips = trip.NewConn(c, func(push resp.Value) { l.onPush(c, push) })
	c.keepAlive = keepalive.New(c.Trips, SilenceGap, ProbeTimeout, c.giveUp)
	l.current.Store(c)
	context.AfterFunc(t.using, func() { c.Drop(context.Cause(t.using)) })
	return c.Trips, nil
}

// admit makes the handshake on a new connection, before anything else can use it. The error is why
// the connection must not be used.
func (l *Link) admit(ctx context.Context, c *Conn) (err error) {
	c.Server, err = l.guard.Admit(ctx, c, l.handshake(c))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return l.dialer.TimedOut()
	case errors.Is(err, resp.ErrUnanswered) && !l.guard.Answered() &&
		l.dialer.Endpoint.TLS == nil:
		return fmt.Errorf("%w: is it Redis, and, if it is a proxy, is its server up? Or the client "+
			"came without TLS: if the server wants it, use rediss://", err)
	}
	return err
}

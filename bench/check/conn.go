package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// limits are far above any page of SCAN.
var limits = resp.Limits{Line: 64 << 10, Bytes: 64 << 20, Items: 1 << 20}

// conn is a connection for looking at keys. A check of what a client does must not use that client.
type conn struct {
	client *resp.Conn
	stop   func() bool
}

// errSentinel is the error of a node whose address is not its own.
var errSentinel = errors.New("no check asks sentinels or a cluster: give the master's own URL")

// dial connects, authenticates and selects the database. The connection ends with ctx.
func dial(ctx context.Context, e Endpoint) (*conn, error) {
	if e.node.MasterSet != "" {
		return nil, errSentinel
	}
	c, err := (&net.Dialer{}).DialContext(ctx, e.node.Network, e.node.Address)
	if err != nil {
		return nil, err
	}
	if e.node.TLS != nil {
		c = tls.Client(c, e.node.TLS)
	}
	opened := newConn(ctx, c)
	if err := opened.logIn(e.node); err != nil {
		opened.close()
		return nil, endpoint.WithoutPassword(err, e.node.Password)
	}
	return opened, nil
}

// newConn takes a connection over until it is closed or ctx ends.
func newConn(ctx context.Context, c net.Conn) *conn {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return &conn{client: resp.NewConnWithin(c, limits), stop: stop}
}

// logIn takes the steps that a Client takes, one after the other.
func (c *conn) logIn(node *endpoint.Endpoint) error {
	for _, step := range node.Handshake() {
		if err := c.client.Do(step); err != nil {
			return fmt.Errorf("%s: %w", step.Command[0], err)
		}
	}
	return nil
}

func (c *conn) close() {
	c.stop()
	_ = c.client.Close()
}

// do sends one command and returns its reply: a string, an int64, nil, or a []any of these.
func (c *conn) do(args ...string) (any, error) {
	reply, err := c.client.Ask(args...)
	if err != nil {
		return nil, err
	}
	return reply.Any(), nil
}

// ConnectionBroken reports whether an error says that a connection was there and has ended.
func ConnectionBroken(err error) bool {
	return resp.HungUp(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE)
}

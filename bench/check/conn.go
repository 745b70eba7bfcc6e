package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// limits are far above any page of SCAN.
var limits = resp.Limits{Line: 64 << 10, Bytes: 64 << 20, Items: 1 << 20, Depth: 2}

// conn is a connection for looking at keys. A check of what a client does must not use that client.
type conn struct {
	client *resp.Client
	stop   func() bool
}

// dial connects, authenticates and selects the database. The connection ends with ctx.
func dial(ctx context.Context, node Endpoint) (*conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, node.network, node.address)
	if err != nil {
		return nil, err
	}
	if node.tls != nil {
		c = tls.Client(c, node.tls)
	}
	opened := newConn(ctx, c)
	if err := opened.logIn(node); err != nil {
		opened.close()
		return nil, err
	}
	return opened, nil
}

// newConn takes a connection over until it is closed or ctx ends.
func newConn(ctx context.Context, c net.Conn) *conn {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return &conn{client: resp.NewClient(c, limits), stop: stop}
}

func (c *conn) logIn(node Endpoint) error {
	if node.password != "" {
		auth := []string{"AUTH", node.password}
		if node.username != "" {
			auth = []string{"AUTH", node.username, node.password}
		}
		if _, err := c.do(auth...); err != nil {
			return fmt.Errorf("AUTH: %w", err)
		}
	}
	if node.db != 0 {
		if _, err := c.do("SELECT", strconv.Itoa(node.db)); err != nil {
			return fmt.Errorf("SELECT: %w", err)
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
	reply, err := c.client.Do(args...)
	if err != nil {
		return nil, err
	}
	return reply.Any(), nil
}

// ConnectionBroken reports whether an error says that a connection was there and has ended.
func ConnectionBroken(err error) bool {
	return resp.HungUp(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE)
}

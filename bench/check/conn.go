package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptools"
)

// limits are far above any page of SCAN.
var limits = resp.Limits{Line: 64 << 10, Bytes: 64 << 20, Items: 1 << 20}

// conn is a connection for looking at keys. A check of what a client does must not use that client.
type conn struct {
	client *resp.Conn
	stop   func() bool
}

// errSentinel is the error of a node whose address is not its own.
var errSentinel = errors.New("no check asks sentinels for their master: give the master's own URL")

// dial connects, authenticates and selects the database. The connection ends with ctx.
func dial(ctx context.Context, e Endpoint) (*conn, error) {
	switch {
	case e.node.Cluster > 0:
		return dialOwner(ctx, e.node)
	case e.node.MasterSet != "":
		return nil, errSentinel
	}
	return dialServer(ctx, e.node)
}

// dialOwner connects to the server that has the slot of a node in a Redis Cluster. It asks a server
// for a key in the slot, and goes where it is sent.
func dialOwner(ctx context.Context, node *endpoint.Endpoint) (*conn, error) {
	const maxMoves = 5
	var errs []error
	for _, seed := range node.Sentinels {
		at := &seed
		for range maxMoves {
			c, err := dialServer(ctx, at)
			if err != nil {
				errs = append(errs, err)
				break
			}
			_, err = c.do("GET", node.Tag)
			if err == nil {
				return c, nil
			}
			c.close()
			errs = append(errs, fmt.Errorf("%s: %w", at.Address, err))
			to, moved := strings.CutPrefix(err.Error(), "MOVED ")
			if !moved {
				break
			}
			_, address, _ := strings.Cut(to, " ")
			if strings.HasPrefix(address, ":") { // at the host that was asked
				host, _, _ := net.SplitHostPort(at.Address)
				address = net.JoinHostPort(host, address[1:])
			}
			at = seed.WithAddress(address)
		}
	}
	return nil, errors.Join(errs...)
}

// dialServer is dial for a server.
func dialServer(ctx context.Context, node *endpoint.Endpoint) (*conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, node.Network, node.Address)
	if err != nil {
		return nil, err
	}
	if node.TLS != nil {
		c = tls.Client(c, node.TLS)
	}
	opened := newConn(ctx, c)
	if err := opened.logIn(node); err != nil {
		opened.close()
		return nil, endpoint.WithoutPassword(err, node.Password)
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
	return resptools.Any(reply), nil
}

// ConnectionBroken reports whether an error says that a connection was there and has ended.
func ConnectionBroken(err error) bool {
	return resp.HungUp(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE)
}

package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// scanStep is how many keys a node looks at in one SCAN: well below a millisecond of its time.
const scanStep = "1000"

// companions starts, after the prefix, the names of what Clients keep beside their locks, on
// purpose and beyond their end.
const companions = "lockpipe:"

// countKeys returns how many keys of one node start with the prefix, companions excepted. It walks
// the whole key space with SCAN, which does not block the node.
func countKeys(ctx context.Context, node endpoint, prefix string) (int, error) {
	c, err := dialNode(ctx, node)
	if err != nil {
		return 0, err
	}
	defer c.close()
	return c.scan(prefix)
}

// escapeGlob makes every character of a MATCH pattern stand for itself.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// nodeConn is a connection of its own for looking at keys. Looking at what a client does is better
// not done with that client.
type nodeConn struct {
	client *resp.Client
	stop   func() bool
}

// limits are far above any page of SCAN.
var limits = resp.Limits{Line: 64 << 10, Bytes: 64 << 20, Items: 1 << 20, Depth: 2}

// dialNode connects, authenticates and selects the database. The connection ends with ctx.
func dialNode(ctx context.Context, node endpoint) (*nodeConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, node.network, node.address)
	if err != nil {
		return nil, err
	}
	if node.tls != nil {
		conn = tls.Client(conn, node.tls)
	}
	c := newNodeConn(ctx, conn)
	if err := c.prepare(node); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// newNodeConn takes a connection over until it is closed, or ctx ends.
func newNodeConn(ctx context.Context, conn net.Conn) *nodeConn {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return &nodeConn{client: resp.NewClient(conn, limits), stop: stop}
}

func (c *nodeConn) prepare(node endpoint) error {
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

func (c *nodeConn) close() {
	c.stop()
	_ = c.client.Close()
}

// scan walks the key space and returns how many keys start with the prefix.
func (c *nodeConn) scan(prefix string) (int, error) {
	found := make(map[string]struct{}) // SCAN may tell a key twice
	if err := c.client.Scan(func(key string) {
		if strings.HasPrefix(key, prefix) && !strings.HasPrefix(key[len(prefix):], companions) {
			found[key] = struct{}{}
		}
	}, "MATCH", escapeGlob(prefix)+"*", "COUNT", scanStep); err != nil {
		return 0, err
	}
	return len(found), nil
}

// do sends one command and returns its reply: a string, an int64, nil, or a []any of these.
func (c *nodeConn) do(args ...string) (any, error) {
	reply, err := c.client.Do(args...)
	if err != nil {
		return nil, err
	}
	return reply.Any(), nil
}

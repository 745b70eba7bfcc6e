package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
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

// nodeConn speaks just enough of the Redis protocol (RESP2) for looking at keys. Looking at what a
// client does is better not done with that client.
type nodeConn struct {
	conn net.Conn
	in   *bufio.Reader
	stop func() bool
}

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
	return &nodeConn{conn: conn, in: bufio.NewReader(conn), stop: stop}
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
	_ = c.conn.Close()
}

// scan walks the key space and returns how many keys start with the prefix.
func (c *nodeConn) scan(prefix string) (int, error) {
	found := make(map[string]struct{}) // SCAN may tell a key twice
	for cursor := "0"; ; {
		reply, err := c.do("SCAN", cursor, "MATCH", escapeGlob(prefix)+"*", "COUNT", scanStep)
		if err != nil {
			return 0, fmt.Errorf("SCAN: %w", err)
		}
		page, ok := reply.([]any)
		if !ok || len(page) != 2 {
			return 0, errors.New("SCAN: not a cursor and keys")
		}
		keys, _ := page[1].([]any)
		for _, key := range keys {
			if name, ok := key.(string); ok && strings.HasPrefix(name, prefix) &&
				!strings.HasPrefix(name[len(prefix):], companions) {
				found[name] = struct{}{}
			}
		}
		if cursor, ok = page[0].(string); !ok || cursor == "0" {
			return len(found), nil
		}
	}
}

// do sends one command and returns its reply: a string, an int64, nil, or a []any of these.
func (c *nodeConn) do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *nodeConn) read() (any, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if line == "" {
		return nil, errors.New("an empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a reply: %q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case n > maxReply:
		return nil, fmt.Errorf("a reply of %d bytes or items", n)
	case kind == '$':
		return c.readText(n)
	case kind == '*':
		return c.readList(n)
	}
	return nil, fmt.Errorf("not a reply: %q", line)
}

// maxReply is far above any page of SCAN.
const maxReply = 1 << 26

func (c *nodeConn) readText(n int64) (any, error) {
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return nil, err
	}
	return string(text[:n]), nil
}

func (c *nodeConn) readList(n int64) (any, error) {
	list := []any{}
	for range n {
		item, err := c.read()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

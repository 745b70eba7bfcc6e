package check

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
	"syscall"
	"time"
)

// maxReply is far above any page of SCAN.
const maxReply = 1 << 26

// conn speaks just enough of the Redis protocol (RESP2) to look at keys. A check of what a client
// does must not use that client.
type conn struct {
	net  net.Conn
	in   *bufio.Reader
	stop func() bool
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
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	opened := &conn{net: c, in: bufio.NewReader(c), stop: stop}
	if err := opened.logIn(node); err != nil {
		opened.close()
		return nil, err
	}
	return opened, nil
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
	_ = c.net.Close()
}

// do sends one command and returns its reply: a string, an int64, nil, or a []any of these.
func (c *conn) do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c.net, b.String()); err != nil {
		return nil, err
	}
	return readReply(c.in)
}

func readReply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
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
		return readText(in, n)
	case kind == '*':
		return readList(in, n)
	}
	return nil, fmt.Errorf("not a reply: %q", line)
}

func readText(in *bufio.Reader, n int64) (any, error) {
	text := make([]byte, n+2)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, err
	}
	return string(text[:n]), nil
}

func readList(in *bufio.Reader, n int64) (any, error) {
	list := []any{}
	for range n {
		item, err := readReply(in)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// ConnectionBroken reports whether an error says that a connection was there and has ended.
func ConnectionBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
